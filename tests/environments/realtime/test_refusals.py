"""What remotes and their clients refuse, and what a full disk does to them."""

import asyncio
import os
import socket
import subprocess
import sys

import pytest

import environments
from environments import Remotes
from environments.realtime import password
from environments.realtime.link import Link
from tests.environments.realtime.remotes import ROOT, refusal, remote

pytestmark = pytest.mark.xdist_group("remotes")


# A remote whose disk has no room for its password.
NO_ROOM = """
import errno, sys
from environments.remote import __main__ as program

def make(path):
    raise OSError(errno.ENOSPC, "No space left on device", str(path))

program.password.make = make
sys.exit(program.main())
"""


def test_a_remote_that_serves_another_world_is_refused(one_line):
    with remote("--level_name=Catch-v0", "--fps=20") as served:
        places = Remotes([str(served.address)], served.password_file)
        for name, fps in (("vnc:Catch-v0", 10), ("vnc:CartPole-v1", 20)):
            env = environments.make(name, 1, 1, fps=fps, remotes=places)
            expected = f"expected {name[4:]} with --fps={fps}"
            one_line(env.reset, f"{served.address} serves Catch-v0 with --fps=20", expected)
            env.close()


def test_the_desktop_of_one_remote_and_the_rewarder_of_another_are_refused(tmp_path, one_line):
    password.make(tmp_path / "p")
    own = ("--level_name=Catch-v0", f"--password_file={tmp_path / 'p'}")
    with remote(*own) as one, remote(*own) as other:
        mixed = str(one.address._replace(rewarder=other.address.rewarder))
        env = environments.make("vnc:Catch-v0", 1, 1, remotes=Remotes([mixed], str(tmp_path / "p")))
        one_line(env.reset, f"{mixed} are the desktop and the rewarder of two remotes")
        env.close()


def test_a_remote_whose_level_is_made_otherwise_is_refused(one_line):
    with remote("--level_name=CartPole-v1", "--env_kwargs=sutton_barto_reward=true") as served:
        places = Remotes([str(served.address)], served.password_file)
        told = f"{served.address} serves CartPole-v1 with --env_kwargs="
        for kwargs in ("", "sutton_barto_reward=false"):
            env = environments.make("vnc:CartPole-v1", 1, 1, env_kwargs=kwargs, remotes=places)
            one_line(env.reset, told, "expected --env_kwargs=")
            env.close()
        same = '{"sutton_barto_reward": true}'
        env = environments.make("vnc:CartPole-v1", 1, 1, env_kwargs=same, remotes=places)
        env.reset()
        env.close()


def test_mistakes_are_told_in_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = refusal("--level_name=Catch-v0", f"--rewarder_port={port}")
        assert f"--rewarder_port={port}" in told and "Choose another" in told
    told = refusal("--level_name=Catch-v0", "--vnc_port=15901", "--rewarder_port=15901")
    assert "are both 15901" in told and "\n" not in told
    told = refusal("--level_name=Catch-v0", "--host=192.0.2.1")
    assert "--host=192.0.2.1: nothing can listen there" in told and "\n" not in told
    told = refusal("--level_name=Catch-v0", "--host=a..b")
    assert "--host=a..b: nothing can listen there" in told and "\n" not in told
    told = refusal("--level_name=Catch-v0", "--host=")
    assert "--host=: expected an address" in told and "\n" not in told
    told = refusal("--level_name=Catch-v0", f"--record={tmp_path}/none/record")
    assert "it cannot be written (No such file" in told and "\n" not in told
    told = refusal("--level_name=Catch-v0", PATH="/nowhere", HOME=str(tmp_path))
    assert "bin/setup --extra=vnc" in told and "\n" not in told
    for name, fits in (("vnc:Catch-v0", "--level_name=Catch-v0"), ("vnc:a.yaml", "--game=a.yaml")):
        told = refusal(f"--level_name={name}")
        assert f"{name} is on a desktop already; give {fits}." in told and "\n" not in told
    assert "one of --level_name and --game" in refusal()
    assert "Discrete" in refusal("--level_name=Pendulum-v1")
    told = refusal("--game=sandbox/racer.yaml", "--env_kwargs=a=1")
    assert "--env_kwargs=a=1 is for levels, but sandbox/racer.yaml" in told and "\n" not in told


@pytest.mark.parametrize("module", ["websockets", "pygame"])
def test_what_a_remote_needs_and_is_not_there_is_named_with_what_installs_it(tmp_path, module):
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules[{module!r}] = None")
    told = refusal("--level_name=Catch-v0", **os.environ | {"PYTHONPATH": str(tmp_path)})
    needs = f"remote: worlds in real time need {module}: install what is missing, as bin/setup "
    assert told == needs + "--extra=vnc does."


def test_a_full_disk_ends_no_game_but_its_record_is_said_to_have_gaps_once(capfd):
    with remote("--level_name=Catch-v0", "--fps=20", "--record=/dev/full") as served:

        async def watch() -> None:
            link = Link(served.address, 0.0)
            try:
                await link.connect(password.read(served.password_file, "--password_file"))
                reading = asyncio.create_task(link.run())
                seen = set[float | None]()
                while len(seen) < 20:
                    seen.add(link.take().drawn)
                    await asyncio.sleep(0.02)
                reading.cancel()
            finally:
                await link.close()

        asyncio.run(watch())
    assert served.process.returncode == 0
    told = capfd.readouterr().err.splitlines()
    assert [line for line in told if line.startswith("remote: ")] == [
        "remote: --record=/dev/full: lines are missing from now on (No space left on device)."
    ]


def test_a_remote_that_a_full_disk_keeps_from_starting_says_so_in_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM, "serve", "--level_name=Catch-v0"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("remote: ") and "No space left on device" in line
    assert not list(tmp_path.iterdir())


def test_a_wrong_password_and_too_few_remotes_are_one_line(tmp_path, one_line):
    password.make(tmp_path / "p")
    with remote("--level_name=Catch-v0") as served:
        places = Remotes([str(served.address)], str(tmp_path / "p"))
        env = environments.make("vnc:Catch-v0", 1, 1, remotes=places)
        one_line(env.reset, "wrong password", "environment 0 of vnc:Catch-v0")
        assert all(keeper._source.packed for keeper in env._keepers)  # type: ignore[attr-defined]
        env.close()
        one_line(lambda: environments.make("vnc:Catch-v0", 2, 1, remotes=places), "--remotes: 1")


@pytest.mark.parametrize("name", ["Catch-v0", "pong"])
def test_remotes_of_a_level_that_is_on_no_desktop_are_refused(name, one_line):
    places = Remotes(["127.0.0.1:1+2"], "none")
    told = f"remotes: {name} is not played on desktops: expected vnc:NAME"
    one_line(lambda: environments.make(name, 1, 1, remotes=places), told)
    game = "pettingzoo:tests.environments.bodies.game"
    one_line(lambda: environments.make_shared(game, 1, 1, [[0]], remotes=places), "remotes: pett")


def test_a_remote_that_is_named_twice_is_refused(one_line):
    places = Remotes(["127.0.0.1:1+2", "127.0.0.1:3+4", "127.0.0.1:1+2"], "none")
    one_line(
        lambda: environments.make("vnc:Catch-v0", 2, 1, remotes=places),
        "--remotes: 127.0.0.1:1+2 is named twice",
        "expected one for each environment",
    )
