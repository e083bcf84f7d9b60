"""Worker processes: they play the same games, tell of errors and never outlive their trainer."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

import environments
from environments.python import process_count
from environments.python import workers as workers_module
from environments.python.workers import WorkerDied
from tests.environments.levels_in_workers import Quiet
from tests.environments.playing import assert_same_rows, play

OWN = "tests.environments.levels_in_workers"


@contextlib.contextmanager
def made(level_name: str, num_envs: int = 3, **options: Any):
    """Environments in two processes, and these processes."""
    before = set(psutil.Process().children())
    env = environments.make(level_name, num_envs, seed=5, **{"env_processes": 2} | options)
    with contextlib.closing(env):
        yield env, sorted(set(psutil.Process().children()) - before, key=lambda one: one.pid)


@pytest.mark.parametrize(
    ("level_name", "options"),
    [
        ("CartPole-v1", {}),
        ("CartPole-v1", {"num_action_repeats": 3}),
        ("LunarLander-v3", {}),
        ("LunarLanderContinuous-v3", {}),
        ("Hopper-v5", {}),
        ("Taxi-v4", {}),
        (f"{OWN}:Exploring", {"crop": "1,0,4,5", "num_action_repeats": 2}),
    ],
)
# What one process does, each of two does.
@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.extras), 2])
def test_the_rows_and_episodes_are_those_of_environments_in_a_thread(
    level_name, options, processes
):
    with (
        made(level_name, env_processes=0, **options) as (here, none),
        made(level_name, env_processes=processes, **options) as (there, workers),
    ):
        assert len(none) == 0 and len(workers) == processes
        assert here.spec == there.spec
        assert here.pictures_per_second == there.pictures_per_second
        for seed in (0, 1):
            rows, actions = play(here, 250, seed)
            same_rows, same_actions = play(there, 250, seed)
            assert_same_rows(rows, same_rows)
            np.testing.assert_array_equal(actions, same_actions)
            assert [one.dtype for one in rows] == [one.dtype for one in same_rows]
            assert here.episodes() == there.episodes() != []


def test_a_worker_imports_neither_tensorflow_nor_the_trainer():
    import tensorflow  # noqa: F401

    import trainer  # noqa: F401

    for processes, imported in ((0, 1.0), (2, 0.0)):
        with made(f"{OWN}:Modules", env_processes=processes) as (env, _):
            assert (env.reset().observation == imported).all()


def test_there_are_no_more_processes_than_environments():
    with made(f"{OWN}:Quiet", num_envs=3, env_processes=8) as (env, workers):
        assert len(workers) == 3
        assert env.reset().observation.shape == (3, 1)


@pytest.mark.parametrize(
    ("step_s", "cores", "batches", "processes"),
    [
        (0.00001, 16, 2, 0),  # cheap
        (0.001, 16, 1, 10),  # no more than environments
        (0.001, 16, 2, 8),
        (0.001, 2, 2, 1),
        (0.001, 2, 4, 1),
        (0.001, 1, 2, 0),
    ],
)
def test_dear_steps_are_spread_over_the_cores(step_s, cores, batches, processes, monkeypatch):
    monkeypatch.setattr(process_count, "step_time", lambda _: step_s)
    assert process_count.process_count(Quiet(), 10, batches, cores) == processes
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert process_count.process_count(Quiet(), 10, batches) == processes


def test_left_open_it_depends_on_the_time_of_a_step(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    for step_s, processes in ((0.00001, 0), (0.001, 2)):
        monkeypatch.setattr(process_count, "step_time", lambda _, step_s=step_s: step_s)
        with made("CartPole-v1", num_envs=4, env_processes=None) as (env, workers):
            assert len(workers) == processes
            assert env.reset().first.all()


def test_the_time_of_a_step_is_measured_without_that_of_resets(monkeypatch):
    clock = iter(range(10**6))

    class Clock:
        perf_counter = staticmethod(lambda: next(clock) * 0.001)

    class Counting(Quiet):
        def step(self, action):
            assert self.action_space.contains(action)
            for _ in range(6):
                next(clock)
            return self.seen(), 0.0, True, False, {}

        def reset(self, **options):
            for _ in range(50):
                next(clock)
            return super().reset(**options)

    monkeypatch.setattr(process_count, "time", Clock)
    assert process_count.step_time(Counting()) == pytest.approx(0.007)


@pytest.mark.parametrize(
    ("space", "mask"),
    [
        (gymnasium.spaces.MultiDiscrete([3, 2]), (np.ones(3, np.int8), np.ones(2, np.int8))),
        (gymnasium.spaces.Discrete(3), None),
        (gymnasium.spaces.Discrete(3), {"all": True}),
        (gymnasium.spaces.Discrete(3), np.array([0, 1, 0], np.int8)),
    ],
)
def test_the_time_of_a_step_is_measured_whatever_the_form_of_a_mask(space, mask):
    taken = []

    class Masked(Quiet):
        action_space = space

        def reset(self, **options):
            observation, _ = super().reset(**options)
            return observation, {"action_mask": mask}

        def step(self, action):
            taken.append(action)
            return *super().step(0)[:4], {"action_mask": mask}

    assert process_count.step_time(Masked()) >= 0
    assert all(space.contains(action) for action in taken)
    if isinstance(mask, np.ndarray):
        assert set(taken) == {1}


def test_environments_that_are_to_be_drawn_stay_here():
    with made("FrozenLake-v1", render=True) as (env, workers):
        env.reset()
        assert not workers and env.render(0) is not None


def test_an_error_in_a_worker_is_raised_here_with_its_traceback():
    with made(f"{OWN}:Failing") as (env, _):
        env.reset()
        env.step(np.array([0, 0, 0]))
        with pytest.raises(ZeroDivisionError, match="the ball has no mass") as caught:
            env.step(np.array([0, 0, 1]))
        assert "levels_in_workers.py" in "".join(caught.value.__notes__)


def test_an_error_that_cannot_be_sent_is_told_in_words():
    with made(f"{OWN}:FailingOddly") as (env, _):
        env.reset()
        with pytest.raises(RuntimeError, match="Unpicklable: the ball is 7"):
            env.step(np.zeros(3, int))


def test_what_is_wrong_with_a_level_is_told_as_in_a_thread(one_line):
    one_line(lambda: made(f"{OWN}:Missing").__enter__(), "has no 'Missing'")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_is_killed_is_told_in_one_line_with_its_level(number):
    with made("CartPole-v1") as (env, (first, second)):
        env.reset()
        second.send_signal(number)
        wait_for_end(second)
        with pytest.raises(WorkerDied, match=f"^a process .*CartPole-v1 .*{number.name}.*$"):
            env.step(np.zeros(3, int))
    assert not first.is_running()


def test_workers_leave_stopping_to_the_trainer():
    with made("CartPole-v1") as (env, workers):
        env.reset()
        for worker in workers:
            worker.send_signal(signal.SIGINT)
            worker.send_signal(signal.SIGTERM)
            worker.send_signal(signal.SIGHUP)
        env.step(np.zeros(3, int))
    assert not any(worker.is_running() for worker in workers)


def started_by(workers: list[psutil.Process]) -> list[psutil.Process]:
    """What the environments of these processes have started."""
    return [one for worker in workers for one in worker.children()]


def test_environments_in_workers_can_end_what_they_have_started():
    with made(f"{OWN}:Simulated") as (env, workers):
        env.reset()
        simulators = started_by(workers)
        assert len(simulators) == 3
        assert os.getpgrp() not in {os.getpgid(one.pid) for one in simulators}  # as of Ctrl-C
    assert [one._process.returncode for one in env._stepped._workers] == [0, 0]
    assert not any(one.is_running() for one in simulators)


def test_workers_that_do_not_end_are_ended_with_what_they_have_started(monkeypatch):
    monkeypatch.setattr(workers_module, "CLOSE_TIMEOUT_S", 0.1)
    with made(f"{OWN}:HangingAtItsEnd") as (env, workers):
        env.reset()
        simulators = started_by(workers)
        assert len(simulators) == 3
    wait_for_end(*simulators)


@pytest.mark.parametrize("killed", [True, False])
def test_a_worker_that_fails_leaves_nothing_that_its_environments_have_started(killed):
    with made(f"{OWN}:SimulatedFailing") as (env, workers):
        env.reset()
        simulators = started_by(workers)
        assert len(simulators) == 3
        if killed:
            workers[1].kill()
        with pytest.raises(WorkerDied if killed else ZeroDivisionError):
            env.step(np.array([0, 0, 1]))
    wait_for_end(*simulators)


TRAINER = """
import sys, psutil, numpy, environments
env = environments.make(sys.argv[1], 4, seed=0, env_processes=2)
env.reset()
print(*[child.pid for child in psutil.Process().children()], flush=True)
env.step(numpy.zeros(4, int))
sys.stdin.read()
"""


@pytest.mark.parametrize("level_name", ["CartPole-v1", f"{OWN}:Hanging"])
def test_workers_die_with_a_trainer_that_is_killed(level_name):
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER, level_name],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert trainer.stdout
    workers = [psutil.Process(int(pid)) for pid in trainer.stdout.readline().split()]
    assert len(workers) == 2 and all(worker.is_running() for worker in workers)
    trainer.kill()
    trainer.wait()
    wait_for_end(*workers)


def wait_for_end(*processes: psutil.Process) -> None:
    """Returns once none of them runs; one whose exit code nobody has read does not run."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.05)
