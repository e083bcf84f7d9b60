"""Trainings in this process that end early: by an error, by time, or while actors start or hang."""

import errno
import functools
import threading
from typing import Any

import numpy as np
import pytest

from environments import VectorEnvironment
from tests.trainer.launching import newest
from tests.trainer.levels import Breaks, Leaves, NoNumbers, Refuses, Steps, level
from tests.trainer.programs.local.conftest import settings
from trainer import build
from trainer.programs.local import ActorThreads, train
from trainer.programs.local_actors import ActorFailed
from trainer.replay.store import ReplayStore
from trainer.settings.config import Settings
from trainer.storage.folder import LOCK
from trainer.storage.records import METRICS
from transport import UnrollQueue
from user_error import NotWritten, UserError


def test_a_training_that_ends_while_its_actors_start_makes_no_further_environments(
    tmp_path, monkeypatch
):
    made, begun, closed = [], threading.Event(), threading.Event()
    make, close = build.actor_environment, UnrollQueue.close

    def make_slowly(chosen: Settings, actor: int, start: int) -> VectorEnvironment:
        made.append(actor)
        begun.set()
        assert closed.wait(60)
        return make(chosen, actor, start)

    def close_and_record(queue: UnrollQueue) -> None:
        close(queue)
        closed.set()

    monkeypatch.setattr(UnrollQueue, "close", close_and_record)
    chosen = settings(tmp_path, num_actors=3)
    spec = build.level_spec(chosen)
    agent = build.acting_agent(chosen, spec)
    batches = functools.partial(build.batches, chosen, spec, agent, say=print)
    players = [build.player(chosen, agent)] * 3
    with ActorThreads(chosen, players, batches, make_environment=make_slowly):
        assert begun.wait(60)
    assert len(made) == 1


def test_if_a_thread_cannot_start_no_actor_is_left_running(tmp_path, monkeypatch):
    start = threading.Thread.start

    def refuse_the_third(thread: threading.Thread) -> None:
        if thread.name == "actor 2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_the_third)
    with pytest.raises(UserError, match="--num_actors=4: cannot start this many threads"):
        train(settings(tmp_path, num_actors=4))


def test_an_environment_that_hangs_does_not_keep_the_process(tmp_path, monkeypatch, capsys):
    made: list[int] = []
    released = threading.Event()

    def make(chosen: Settings, actor: int, start: int) -> VectorEnvironment:
        environment = build.actor_environment(chosen, actor, start)
        made.append(actor)
        if len(made) == 2:  # they are made one by one, and either actor may be the first
            released.wait()
        return environment

    monkeypatch.setattr("trainer.machine.threads.END_WITHIN_S", 0.5)
    try:
        train(settings(tmp_path, num_actors=2), make_environment=make)
        assert len(made) == 2 and newest(tmp_path).counters["updates"] > 0
        (told,) = [line for line in capsys.readouterr().out.splitlines() if "did not end" in line]
        assert told.startswith(f"warning: actor {made[1]} did not end within 0.5 s;")
    finally:
        released.set()
        for thread in threading.enumerate():
            if thread.name.startswith("actor"):
                thread.join(60)


def test_a_time_limit_ends_a_training_without_a_batch(tmp_path, monkeypatch):
    released = threading.Event()

    def make(chosen: Settings, actor: int, start: int) -> VectorEnvironment:
        released.wait()
        return build.actor_environment(chosen, actor, start)

    monkeypatch.setattr("trainer.machine.threads.END_WITHIN_S", 0.1)
    try:
        outcome = train(settings(tmp_path, stop_after_s=1.0), make_environment=make)
        assert outcome.reason == "1 s have passed (--stop_after_s)"
    finally:
        released.set()
        for thread in threading.enumerate():
            if thread.name.startswith("actor"):
                thread.join(60)


def test_while_a_replay_fills_the_folder_shows_that_the_training_is_alive(tmp_path):
    locked: list[int] = []

    def make(chosen: Settings, actor: int, start: int) -> VectorEnvironment:
        locked.append((tmp_path / LOCK).stat().st_mtime_ns)
        return build.actor_environment(chosen, actor, start)

    fills = {"algorithm": "dqn", "replay_warm_up": 90_000, "total_environment_frames": 10**6}
    chosen = settings(tmp_path, **fills, stop_after_s=1.0, report_every_s=0.1)
    train(chosen, make_environment=make)
    assert not (tmp_path / METRICS).exists()
    assert (tmp_path / LOCK).stat().st_mtime_ns > locked[0] + 0.3e9


def test_a_replay_that_is_not_written_at_the_end_is_no_success(tmp_path, monkeypatch, capsys):
    def fails(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ReplayStore, "save", fails)
    kept = {"checkpoint_replay": True, "replay_warm_up": 40}
    with pytest.raises(NotWritten, match=r"with all that is kept beside it\. Make room and run"):
        train(settings(tmp_path, algorithm="dqn", **kept))
    assert newest(tmp_path).counters["environment_frames"] >= 400
    printed = capsys.readouterr().out
    assert "but not what is kept beside it (No space left on device)." in printed
    assert "Ended: all frames are played." in printed and "tries again" not in printed


# The test below and others have an environment that breaks.
@pytest.mark.parametrize("environment", [pytest.param(Breaks, marks=pytest.mark.extras), Leaves])
def test_an_error_in_an_environment_ends_the_training_and_names_the_actor(tmp_path, environment):
    with pytest.raises(ActorFailed, match=f"actor [01], which plays {level(environment)}, ended"):
        train(settings(tmp_path, level_name=level(environment), total_environment_frames=10**6))
    assert newest(tmp_path).counters["environment_frames"] > 0
    assert "Ended by an error: actor" in (tmp_path / "train.log").read_text()


def test_the_error_names_the_level_that_failed(tmp_path):
    levels = f"{level(Steps)},{level(Breaks)}"
    with pytest.raises(ActorFailed, match=f"actor 1, which plays {level(Breaks)}"):
        train(settings(tmp_path, level_name=levels, total_environment_frames=10**6))


def test_a_failed_training_releases_its_folder(tmp_path):
    for _ in range(2):
        with pytest.raises(ActorFailed):
            train(settings(tmp_path, level_name=level(Breaks), total_environment_frames=10**6))


def test_a_mistake_that_shows_while_it_trains_costs_nothing_that_was_learned(tmp_path, capsys):
    with pytest.raises(UserError, match="^the page cannot be loaded any more$"):
        train(settings(tmp_path, level_name=level(Refuses), total_environment_frames=10**6))
    assert newest(tmp_path).counters["environment_frames"] > 0
    assert "  Ended: the page cannot be loaded any more\n" in (tmp_path / "train.log").read_text()
    assert "the page" not in capsys.readouterr().out  # the program prints it, as all refusals


def test_updates_that_are_never_finite_end_the_training_and_name_the_last_good_checkpoint(
    tmp_path, capsys
):
    chosen: dict[str, Any] = {
        "level_name": level(NoNumbers),
        "total_environment_frames": 10**6,
        "max_skipped_updates": 3,
        "checkpoint_every_s": 1e-3,
    }
    with pytest.raises(UserError) as error:
        train(settings(tmp_path, **chosen))
    assert "3 batches in a row" in str(error.value)
    assert f"The last good checkpoint is {tmp_path}/checkpoints/frames-" in str(error.value)
    assert all(np.isfinite(weight).all() for weight in newest(tmp_path).weights.values())
