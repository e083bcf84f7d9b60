"""Remotes that are started here: what they say, how they end, and what is left of them."""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from environments.names import RealTimeLevel
from environments.realtime import environment, keeping, levels, messages, password
from environments.realtime.keeping import Elsewhere, Keeper, StartedHere
from environments.realtime.link import Address
from environments.realtime.rfb import Refused, RfbClient
from environments.rules import AtariRules
from environments.view import View
from tests.environments.realtime.remotes import SLOW
from user_error import UserError

pytestmark = pytest.mark.xdist_group("remotes")

# Makes its folder, and starts a helper that has its pipes.
HELPED = """
import pathlib, subprocess, sys
folder = pathlib.Path(sys.argv[-1].partition("=")[2])
folder.mkdir()
helper = subprocess.Popen(["sleep", "600"])
(folder / "new").write_text(str(helper.pid))
(folder / "new").rename(folder / "helper")
sys.stdin.read()
"""
ENDS_BADLY = "import sys; print('remote: no score', file=sys.stderr); sys.exit({code})"


def source(code: str) -> StartedHere:
    """A process that is started as a remote is."""
    made = StartedHere([])
    made._command = ["-c", code]
    return made


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "remote"
    made.mkdir()
    password.make(made / "password")
    return made


def announced(folder: Path) -> str:
    """A program that names a remote, after what its level has printed."""
    line = f"remote 127.0.0.1:5+6 password file {folder}/password"
    return f"print('pygame 2.5'); print(); print('{line}', flush=True); "


def test_a_level_may_print_before_its_remote_is_announced(folder):
    async def play() -> None:
        one = source(announced(folder) + "import sys; sys.stdin.read()")
        address, secret = await one.find()
        assert str(address) == "127.0.0.1:5+6" and len(secret) == 8
        assert await one.drop() == ""

    asyncio.run(play())


def test_nobody_waits_for_a_remote_once_it_is_not_wanted(folder, monkeypatch):
    """Not even where what it said was read just then."""
    monkeypatch.setattr(keeping, "TELLS_WITHIN_S", 60.0)

    async def play() -> BaseException | str:
        one = source(announced(folder) + "import sys; sys.stdin.read()")
        await one.find()
        process = one._process
        assert process
        heard = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(one, "_listening", heard)
        dropping = asyncio.create_task(one.drop())
        while process.returncode is None:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)  # what it has said is awaited
        heard.set_result(None)
        dropping.cancel()
        [outcome] = await asyncio.gather(dropping, return_exceptions=True)
        return outcome

    assert isinstance(asyncio.run(play()), asyncio.CancelledError)


def test_a_remote_starts_where_the_user_has_modules_of_the_same_names(tmp_path, monkeypatch):
    """Those of the project and of Python; levels of the current folder are found all the same."""
    (tmp_path / "environments").mkdir()
    for name in ("environments/__init__.py", "queue.py"):
        (tmp_path / name).write_text("raise RuntimeError('another')\n")
    (tmp_path / "mine.py").write_text("from environments.python.catch import Catch\n")
    monkeypatch.chdir(tmp_path)

    async def play() -> None:
        one = StartedHere(["--level_name=mine:Catch"])
        await one.find()
        assert await one.drop() == ""

    asyncio.run(play())


@pytest.mark.parametrize("is_stopped", [False, True])
def test_the_folder_of_a_remote_does_not_stay_however_it_ends(tmp_path, monkeypatch, is_stopped):
    monkeypatch.setattr(keeping, "ENDS_WITHIN_S", 1.0 if is_stopped else 60.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def play() -> int | None:
        one = StartedHere([f"--level_name={SLOW}"])  # ends before it is announced
        finding = asyncio.create_task(one.find())
        while not list(tmp_path.glob("*/password")):
            await asyncio.sleep(0.02)
        assert one._process and one.pid and os.getpgid(one.pid) == one.pid
        process = one._process
        if is_stopped:
            os.kill(one.pid, signal.SIGSTOP)
        await one.drop()
        await asyncio.gather(finding, return_exceptions=True)
        return process.returncode

    assert asyncio.run(play()) == (-signal.SIGKILL if is_stopped else 0)
    assert not list(tmp_path.iterdir())


def test_what_a_frozen_remote_has_started_ends_with_it_and_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "ENDS_WITHIN_S", 1.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def play() -> psutil.Process:
        one = source(HELPED)
        finding = asyncio.create_task(one.find())
        while not (files := list(tmp_path.glob("*/helper"))):
            await asyncio.sleep(0.02)
        helper = psutil.Process(int(files[0].read_text()))
        assert one.pid
        os.kill(one.pid, signal.SIGSTOP)
        await asyncio.wait_for(one.drop(), 20)
        await asyncio.gather(finding, return_exceptions=True)
        return helper

    helper, until = asyncio.run(play()), time.monotonic() + 20
    with contextlib.suppress(psutil.NoSuchProcess):
        while helper.status() != psutil.STATUS_ZOMBIE:  # as which nobody may collect it
            assert time.monotonic() < until
            time.sleep(0.02)
    assert not list(tmp_path.iterdir())


def test_why_a_remote_that_starts_too_slowly_is_not_there_is_said_first(monkeypatch, one_line):
    more, told = environment.ALL_THERE_WITHIN_S - keeping.STARTS_WITHIN_S, list[str]()
    monkeypatch.setattr(keeping, "STARTS_WITHIN_S", 1.0)
    monkeypatch.setattr(environment, "ALL_THERE_WITHIN_S", 1.0 + more)
    remotes = levels.Remotes(say=told.append)
    view = View(fps=20, width=10, height=10)
    sources = [StartedHere([f"--level_name={SLOW}"])]
    level = RealTimeLevel("Catch-v0")
    monkeypatch.setattr(levels, "_sources", lambda *given: sources)
    env = levels.make(level, "vnc:Catch-v0", view, AtariRules(), [1], remotes, 0)
    with contextlib.closing(env):
        one_line(env.reset, "no remote could be reached", "look at what is printed above")
    assert "environment 0 of vnc:Catch-v0: it does not answer" in told[0]


def test_where_to_look_at_what_was_started_is_printed():
    told: list[str] = []

    async def play() -> None:
        keeper = Keeper(
            "environment 0", StartedHere(["--level_name=Catch-v0"]), 0.0,
            lambda link: None, str, told.append,
        )  # fmt: skip
        task = asyncio.create_task(keeper.keep())
        while not told:
            assert not task.done(), keeper.error
            await asyncio.sleep(0.05)
        file, place = told[0].split()[-2:]
        secret = password.read(file, "--password_file")
        assert secret not in told[0]
        assert told[0] == f"environment 0: look: vncviewer -passwd {file} {place}"
        host, _, port = place.partition("::")
        reader, writer = await asyncio.open_connection(host, int(port))
        await RfbClient(reader, writer, packed=False).greet(secret)
        writer.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not Path(file).parent.exists()

    asyncio.run(play())


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_remote_that_ends_for_a_mistake_says_so_once_and_another_may_come_back(
    folder, is_announced
):
    async def play(code: int) -> str:
        one = source((announced(folder) if is_announced else "") + ENDS_BADLY.format(code=code))
        if is_announced:
            await one.find()
        else:
            with pytest.raises(OSError, match="ended while it started"):
                await one.find()
        return await one.drop()

    with pytest.raises(UserError, match="^no score$"):
        asyncio.run(play(2))
    assert asyncio.run(play(1)) == "no score"


@pytest.mark.parametrize(
    "served, here, fits",
    [
        ("games/racer.yaml", "/home/me/racer.yaml", True),
        ("browser:racer.yaml", "browser:pages/racer.yaml", True),
        ("racer.yaml", "runner.yaml", False),
        ("a/Catch-v0", "Catch-v0", False),
        ("PongNoFrameskip-v4", "pong", True),
        ("PongNoFrameskip-v0", "pong", False),  # its emulator repeats actions
        ("BreakoutNoFrameskip-v4", "pong", False),
    ],
)
def test_what_a_remote_serves_is_the_same_wherever_its_file_is(served, here, fits):
    one = Elsewhere(Address("host", 1, 2), "secret", here, 30.0, {})
    with contextlib.nullcontext() if fits else pytest.raises(UserError, match=f"serves {served}"):
        one.check({"env_id": served, "fps": 30})


def test_a_server_that_speaks_something_else_is_tried_again(monkeypatch):
    """Its rewarder's port is that of another program with a WebSocket."""
    monkeypatch.setattr(keeping, "FIRST_PAUSE_S", 0.01)
    told: list[str] = []

    class Other(StartedHere):
        async def find(self):
            return messages.decoded("[]")

    async def play() -> None:
        keeper = Keeper("environment 0", Other([]), 0.0, lambda link: None, str, told.append)
        task = asyncio.create_task(keeper.keep())
        while not told:
            assert not task.done(), keeper.error
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())
    assert "not a message of a rewarder" in told[0]


class Refusing(StartedHere):
    """What is found does not let anybody in."""

    async def find(self):
        raise Refused("wrong password")


@pytest.mark.parametrize("has_played", [True, False])
@pytest.mark.parametrize(
    "fails, reason",
    [
        (source(ENDS_BADLY.format(code=2)), "a remote ended while it started (no score)"),
        (Refusing([]), "wrong password"),
    ],
)
def test_a_mistake_ends_a_run_only_before_anything_was_played(
    has_played, fails, reason, monkeypatch
):
    monkeypatch.setattr(keeping, "FIRST_PAUSE_S", 0.01)
    told: list[str] = []

    async def play() -> Keeper:
        keeper = Keeper("environment 0", fails, 0.0, lambda link: None, str, told.append)
        keeper._has_played = has_played
        keeping_ = asyncio.create_task(keeper.keep())
        while len(told) < 2 and not keeping_.done():
            await asyncio.sleep(0.05)
        keeping_.cancel()
        await asyncio.gather(keeping_, return_exceptions=True)
        return keeper

    keeper = asyncio.run(play())
    if has_played:
        assert keeper.error is None and f"{reason}; next try" in told[0]
    else:
        assert not told and str(keeper.error).removeprefix("environment 0: ") in reason
