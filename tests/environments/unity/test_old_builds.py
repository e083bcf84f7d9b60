"""Builds of ML-Agents 0.2, played by a stand-in that speaks their protocol."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import environments
from benchmarks.parts import environments as benchmark
from environments import held_folders
from environments.unity import process, seat
from tests.environments.playing import copied, play

pytestmark = pytest.mark.xdist_group("unity")
ROOT = Path(__file__).parents[3]


def test_each_agent_is_a_column_with_episodes_of_its_own(build):
    env = environments.make(build("old_build"), 4, seed=1)
    rows, actions = play(env, num_steps=12)
    episodes = env.episodes()
    env.close()
    assert env.num_envs == 6  # two builds of three agents
    assert rows.observation.shape == (13, 6, 2) and rows.first[0].all()
    np.testing.assert_array_equal(rows.observation[:, 3:], rows.observation[:, :3])
    for column, length in enumerate([3, 5, 4]):
        ends = np.flatnonzero(rows.terminated[:, column])
        # The build has taken an action for the new episode by the time of its first row here.
        np.testing.assert_array_equal(ends, np.arange(length, 13, length))
        np.testing.assert_array_equal(
            np.flatnonzero(rows.first[:, column])[1:], ends[ends < 12] + 1
        )
        acted = ~rows.first[1:, column]
        np.testing.assert_array_equal(rows.reward[1:, column][acted], actions[:, column][acted])
        assert (rows.reward[:, column][rows.first[:, column]] == 0).all()
    assert [one.length for one in episodes if one.environment == 0] == [3, 2, 2, 2]


def test_the_whole_worlds_end_cuts_all_episodes(build):
    env = environments.make(build("old_build", "over"), 3, seed=1)
    rows, _ = play(env, num_steps=6)
    lengths = [one.length for one in env.episodes()]
    env.close()
    np.testing.assert_array_equal(np.flatnonzero(rows.first.all(axis=1)), [0, 3])
    assert not rows.terminated[2].any() and lengths[:3] == [2, 2, 2]


def test_continuous_actions_and_parameters_reach_the_build(build):
    env = environments.make(build("old_build", "continuous"), 1, seed=1, env_kwargs="start=10")
    first = copied(env.reset())
    step = copied(env.step(np.full([3, 4], [0.5, 0.5, -1, 7], np.float32)))
    env.close()
    np.testing.assert_array_equal(first.observation[:, 1], 10)
    assert env.spec.action_space.shape == (4,)
    np.testing.assert_array_equal(step.reward, 1)  # what is above 1 counts as 1


@pytest.mark.parametrize("fault", ["dies", "hangs"])
def test_a_build_that_dies_or_freezes_is_started_again_while_others_go_on(
    build, fault, monkeypatch, capsys
):
    monkeypatch.setattr(process, "ANSWERS_WITHIN_S", 5.0)
    env = environments.make(build("old_build", fault), 6, seed=1)
    rows = [copied(env.reset())]
    while len(rows) < 8 or rows[-1].first[:3].all():  # until the first build is back
        rows.append(copied(env.step(np.zeros(6, int))))
    env.close()
    _, _, told = capsys.readouterr().err.partition(" of unity:")
    assert "it is started again" in told and "build 0" not in told
    first = np.array([row.first for row in rows])
    assert not first[5, :3].all() and first[6, :3].all()
    # Agent 102 has episodes of five steps, of which the build takes one for itself.
    np.testing.assert_array_equal(np.flatnonzero(first[:, 4])[:2], [0, 6])


@pytest.mark.parametrize("fault", ["no text", "a list", "no agents", "another brain"])
def test_a_build_that_sends_what_is_no_message_is_started_again(build, fault, capfd):
    env = environments.make(build("old_build", fault), 3, seed=1)
    rows = [copied(env.reset())] + [copied(env.step(np.zeros(3, int))) for _ in range(8)]
    env.close()
    first = np.array([row.first for row in rows])
    assert first[6].all() and first[7].all() and not first[8].any()  # gone, again there, played
    [told] = capfd.readouterr().err.splitlines()
    assert "has sent what is no message of ML-Agents (" in told and "it is started again" in told


def test_the_only_build_is_waited_for_and_begins_with_its_first_rows(build):
    env = environments.make(build("old_build", "dies"), 3, seed=1)
    rows = [copied(env.reset())] + [copied(env.step(np.zeros(3, int))) for _ in range(8)]
    env.close()
    first = np.array([row.first for row in rows])
    assert first[6].all() and first[7].all() and not first[8].any()  # gone, again there, played
    np.testing.assert_array_equal(rows[7].observation, rows[0].observation)
    np.testing.assert_array_equal(rows[8].observation[:, 1], 1)


def test_a_build_that_dies_while_it_is_started_again_is_started_once_more(build, capsys):
    env = environments.make(build("old_build", "dies twice"), 3, seed=1)
    rows = [copied(env.reset())] + [copied(env.step(np.zeros(3, int))) for _ in range(8)]
    env.close()
    first = np.array([row.first for row in rows])
    assert first[6].all() and first[7].all() and not first[8].any()  # gone, again there, played
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2 and all("it is started again" in line for line in told)
    assert "it ended with exit code 1 before it connected: no room; it is" in told[1]


def test_a_full_disk_is_a_mistake_at_first_and_then_costs_a_start(
    build, monkeypatch, capsys, one_line
):
    level, make_new = build("old_build", "dies"), held_folders.make_new
    env = environments.make(level, 3, seed=1)
    is_full = iter([True, True, False, False, True])

    def failing(prefix: str) -> Any:
        if next(is_full):
            raise OSError(errno.ENOSPC, "No space left on device")
        return make_new(prefix)

    monkeypatch.setattr(held_folders, "make_new", failing)
    told = "does not start", "No space left on device"
    one_line(lambda: environments.spec(level), *told)
    rows = [copied(env.reset())] + [copied(env.step(np.zeros(3, int))) for _ in range(8)]
    env.close()
    first = np.array([row.first for row in rows])
    assert first[6].all() and first[7].all() and not first[8].any()  # gone, again there, played
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all("it is started again" in line for line in lines)
    assert all(part in lines[1] for part in told)
    one_line(lambda: environments.make(level, 6, seed=1), "build 1 of unity:", *told)


def test_a_build_that_always_dies_ends_in_one_line(build, monkeypatch):
    monkeypatch.setattr(seat, "MOST_STARTS", 2)
    env = environments.make(build("old_build", "always dies"), 3, seed=1)
    env.reset()
    with pytest.raises(process.Lost, match="build 0 .* has ended.*, after 2 starts"):
        for _ in range(100):
            env.step(np.zeros(3, int))
    env.close()


@pytest.mark.parametrize("also", [signal.SIGKILL, signal.SIGINT])
def test_builds_end_with_the_process_that_plays_them(build, also, tmp_path):
    code = (
        "import numpy as np, environments, sys\n"
        "env = environments.make(sys.argv[1], 6, seed=1)\n"
        "env.reset()\n"
        "print('plays', flush=True)\n"
        "while True: env.step(np.zeros(6, int))"
    )
    level = build("old_build")
    with subprocess.Popen(
        [sys.executable, "-c", code, level],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as player:
        assert player.stdout and player.stdout.readline() == b"plays\n"
        family = psutil.Process(player.pid).children(recursive=True)
        assert len(family) == 4  # two programs, two builds
        assert len(list(tmp_path.glob(f"{process.PREFIX}*"))) == 2
        player.send_signal(also)
    assert not psutil.wait_procs(family, timeout=10)[1]
    assert not list(tmp_path.glob(f"{process.PREFIX}*"))


def test_a_start_removes_what_killed_builds_have_left_and_nothing_else(
    build, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, lock = held_folders.make_new(process.PREFIX)
    unknown = tmp_path / f"{process.PREFIX}unknown"
    unknown.mkdir()  # nobody says whether it is held
    env = environments.make(build("old_build"), 3, seed=1)
    with contextlib.closing(env):
        env.reset()
        assert left.exists()
        os.close(lock)  # as when its holder is killed
        playing = set(tmp_path.glob(f"{process.PREFIX}*")) - {left, unknown}
        assert len(playing) == 1
        held_folders.remove_left(process.PREFIX)
        assert not left.exists() and unknown.exists() and next(iter(playing)).exists()
    assert set(tmp_path.glob(f"{process.PREFIX}*")) == {unknown}


def test_a_build_sees_loopback_only(build, tmp_path):
    program = tmp_path / "looks.x86_64"
    program.write_text(
        "#!/bin/sh\nls /sys/class/net >&2; cat /proc/net/dev | tail -n +3 >&2; exit 3"
    )
    program.chmod(0o755)
    with pytest.raises(Exception, match=r"ended with exit code 3 before it connected: lo:"):
        environments.spec(f"unity:{program}")


@pytest.mark.parametrize(
    ("fault", "view", "told"),
    [
        ("version", {}, "speaks API-3; expected API-2"),
        ("nobody", {}, "shows no agents after its first reset"),
        ("", {"env_kwargs": "stat=1"}, "has no parameter stat; its parameters: start"),
        ("", {"env_kwargs": "start=high"}, "parameters of builds are numbers"),
        (
            "",
            {"env_kwargs": "behaviour=Walker"},
            "has no behaviour Walker; expected one of Counter",
        ),
        ("", {"num_action_repeats": 2}, "--num_action_repeats=2 is not for builds of Unity"),
    ],
)
def test_mistakes_are_told_in_one_line(build, fault, view, told, one_line):
    level = build("old_build", fault)
    one_line(lambda: environments.spec(level, **view), told)


def test_a_program_that_is_none_is_told_in_one_line(tmp_path, one_line, monkeypatch):
    def refuses(name, *told):
        one_line(lambda: environments.spec(f"unity:{name}"), f"unity:{name}", *told)

    refuses("3dbal", "Did you mean 3dball?")
    refuses(f"{tmp_path}/none.x86_64", "there is no such file")
    refuses("~no-such-user/Walker", "there is no such file")
    refuses(tmp_path, "there is no such file; expected the program of a build")
    program = tmp_path / "text"
    program.write_text("text")
    refuses(program, f"chmod +x {program}")
    program.chmod(0o755)
    program.write_bytes(b"\x7fELF")
    refuses(program, "ended with exit code 127 before it connected")
    program.write_text("#!/bin/sh\nexec sleep 60")
    monkeypatch.setattr(process, "STARTS_WITHIN_S", 1.0)
    refuses(program, "does not answer: nothing for 1 s")


def test_a_benchmark_counts_agents_and_goes_on_after_a_build_that_dies(
    build, monkeypatch, tmp_path
):
    def rows(names: str) -> Any:
        flags = ("--num_envs=1", "--threads=1", "--seconds=0.02", "--repeats=1")
        benchmark.measure([f"--level_names={names}", *flags, f"--results={tmp_path}"])
        return json.loads((tmp_path / "environments.json").read_text())["rows"]

    level = build("old_build")
    [found] = rows(level)
    assert found["environments"] == "3" and found["agent steps/s"]["median"] > 0
    monkeypatch.setattr(seat, "MOST_STARTS", 1)
    build("old_build", "always dies")
    broken, here = rows(f"{level},CartPole-v1")
    assert broken["environments"].startswith("broke off: build 0 of unity:")
    assert here["agent steps/s"]["median"] > 0
