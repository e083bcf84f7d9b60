"""Remotes that are started here: what they say, how they end, and what is left of them."""

import asyncio
from pathlib import Path

import pytest

from environments.realtime import keeping, password
from environments.realtime.keeping import FOLDER_PREFIX, Keeper, StartedHere
from environments.realtime.rfb import Refused
from user_error import UserError

ENDS_BADLY = "import sys; print('remote: no score', file=sys.stderr); sys.exit({code})"


def source(code: str) -> StartedHere:
    """A process that is started as a remote is."""
    made = StartedHere([])
    made._command = ["-c", code]
    return made


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / f"{FOLDER_PREFIX}a"
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


def test_the_folder_of_a_remote_that_is_killed_does_not_stay(folder, monkeypatch):
    monkeypatch.setattr(keeping, "ENDS_WITHIN_S", 0.2)

    async def play() -> None:
        one = source(announced(folder) + "import time; time.sleep(600)")
        await one.find()
        assert await one.drop() == ""

    asyncio.run(play())
    assert not folder.exists() and folder.parent.exists()


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
    folder.mkdir(exist_ok=True)
    if is_announced:
        password.make(folder / "password")
    assert asyncio.run(play(1)) == "no score"


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
