"""Trainings in this process: every way to train, mistakes in flags, extreme sizes."""

import functools
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import experiment
from environments import VectorEnvironment
from tests.trainer.launching import contents, newest
from tests.trainer.levels import (
    Breaks,
    Continuous,
    Leaves,
    NoNumbers,
    Pictures,
    Refuses,
    Steps,
    Tens,
    TwoChoices,
    level,
)
from trainer import build
from trainer.acting.acting_agent import ActingAgent
from trainer.learning import compiling
from trainer.machine.graphs import SharedGraph
from trainer.programs import local, local_actors
from trainer.programs.local import ActorThreads, train
from trainer.programs.local_actors import ActorFailed
from trainer.settings.config import Settings
from trainer.settings.sizes import fresh_unrolls
from trainer.storage.checkpoints import Store
from trainer.storage.records import read_metrics
from transport import UnrollQueue
from user_error import UserError

RETURNS = {level(Steps): 7, level(Tens): 30}


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Asserts that no thread is left; keeps TensorFlow's threads, which cannot change now."""
    monkeypatch.setattr(local.cores, "divide", lambda **_: 2)
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("actor")]
    assert left == []


def settings(folder: Path, **changes: Any) -> Settings:
    small: dict[str, Any] = {
        "level_name": level(Steps),
        "logdir": str(folder),
        "total_environment_frames": 400,
        "envs_per_actor": 2,
        "batch_size": 4,
        "unroll_length": 5,
        "replay_share": 0.0,
        "precision": "float32",
        "env_threads": 1,
    }
    if "algorithm" in changes:
        del small["replay_share"]  # which IMPALA alone has
    return Settings(**small | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "rmsprop", "momentum": 0.5},
        {"optimizer": "adam", "popart": False},
        {"replay_share": 0.5, "replay_capacity": 16},
        {"replay_share": 0.95, "batch_size": 2},
        {"replay_share": 0.5, "batch_size": 1},
        {"level_name": f"{level(Steps)},{level(Tens)}", "popart": False},
        {"level_name": f"{level(Steps)},{level(Tens)}", "num_actors": 3, "replay_share": 0.3},
        {"level_name": level(TwoChoices), "agent_name": "VectorLSTMAgent"},
        {"level_name": level(Continuous), "reward_clipping": "soft_asymmetric"},
        {"level_name": level(Pictures), "width": 36, "height": 36, "num_action_repeats": 2},
        {"num_actors": 1, "envs_per_actor": 1, "batch_size": 1, "unroll_length": 1},
        {"num_actors": 1, "envs_per_actor": 1, "batch_size": 2, "queue_capacity": 1},
        {"num_actors": 1, "envs_per_actor": 7, "batch_size": 3, "queue_capacity": 1},
        {"num_actors": 2, "envs_per_actor": 2, "batch_size": 9},
        {"num_actors": 1, "envs_per_actor": 1, "batch_size": 64, "queue_capacity": 4},
        {"num_actors": 5, "envs_per_actor": 1, "batch_size": 4, "queue_capacity": 100},
        {"total_environment_frames": 1},
        {"gradients_clipping": 0.0, "discounting": 0.0, "vtrace_lambda": 0.0, "seed": 2**31 - 1},
    ],
    ids=lambda changes: ",".join(f"{name}={value}" for name, value in changes.items())[:60],
)
def test_it_trains(tmp_path, changes):
    chosen = settings(tmp_path, **changes)
    train(chosen)
    counters = newest(tmp_path).counters
    # Only fresh unrolls count, and training stops with the first update that reaches the total.
    # Of each episode's rows one is a reset, which is no step.
    fresh, all_of_them = fresh_unrolls(chosen), chosen.learning.batch_size
    frames = chosen.actors.unroll_length * chosen.level.num_action_repeats
    first, others = all_of_them * frames, fresh * frames  # nothing can be replayed at first
    total = chosen.learning.total_environment_frames
    fewest = 1 + max(0, math.ceil((total - first) / others))
    assert total <= counters["environment_frames"] < total + max(first, others)
    assert fewest <= counters["updates"] <= 2 * fewest
    steps = counters["environment_frames"] / chosen.level.num_action_repeats
    assert steps == counters["agent_steps"]
    assert counters["skipped_updates"] == 0
    rows = read_metrics(tmp_path)
    assert rows[-1]["environment_frames"] == counters["environment_frames"]
    assert rows[-1]["time_left"] == 0  # even if the last update had more than was left
    for name in chosen.level.levels if len(chosen.level.levels) > 1 else []:
        assert rows[-1][f"mean_episode_return/{name}"] == RETURNS[name]
    assert all(np.isfinite(weight).all() for weight in newest(tmp_path).weights.values())


def test_an_atari_game_with_lives_as_episodes(tmp_path):
    train(
        settings(
            tmp_path,
            level_name="BreakoutNoFrameskip-v4",
            episodic_life=True,
            width=36,
            height=36,
            total_environment_frames=800,
        )
    )
    assert newest(tmp_path).counters["agent_steps"] * 4 >= 800


def test_a_finished_run_continues_if_more_frames_are_given(tmp_path):
    train(settings(tmp_path))
    first = newest(tmp_path).counters
    train(settings(tmp_path, total_environment_frames=800))
    second = newest(tmp_path).counters
    assert second["environment_frames"] >= 800 and first["environment_frames"] < 420
    assert second["updates"] > 1.5 * first["updates"]
    assert second["episodes"] > first["episodes"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algorithm": "a2c"},
        {"algorithm": "reinforce"},
        {"algorithm": "ppo", "epochs": 2, "minibatches": 2, "piece_length": 1},
        {"algorithm": "ppo", "epochs": 1, "minibatches": 1},
        {"algorithm": "dqn", "replay_steps": 200, "replay_warm_up": 20},
    ],
    ids=lambda changes: ",".join(map(str, changes.values())),
)
def test_no_graph_is_made_that_updates_do_not_call(tmp_path, monkeypatch, changes):
    calls: dict[int, int] = {}

    class Counted(SharedGraph):
        def __init__(self, *arguments: Any):
            super().__init__(*arguments)
            calls[id(self)] = 0

        def __call__(self, *arguments: Any) -> Any:
            calls[id(self)] += 1
            return super().__call__(*arguments)

    monkeypatch.setattr(compiling, "SharedGraph", Counted)
    train(settings(tmp_path, **changes))
    assert calls and min(calls.values()) > 1  # once may be to prepare


def test_actors_get_new_weights_as_often_as_requested(tmp_path, monkeypatch):
    versions = []
    load = ActingAgent.load

    def loaded(agent: ActingAgent, weights: Any, version: int) -> None:
        versions.append(version)
        load(agent, weights, version)

    monkeypatch.setattr(ActingAgent, "load", loaded)
    train(settings(tmp_path, publish_every_updates=6))
    updates = newest(tmp_path).counters["updates"]
    assert updates >= 20
    assert versions == list(range(0, updates + 1, 6))


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


def test_an_environment_that_hangs_does_not_keep_the_process(tmp_path, monkeypatch, capsys):
    hanging, released = threading.Event(), threading.Event()

    def make(chosen: Settings, actor: int, start: int) -> VectorEnvironment:
        environment = build.actor_environment(chosen, actor, start)
        if actor == 1:
            hanging.set()
            released.wait()
        return environment

    monkeypatch.setattr(local_actors, "END_WITHIN_S", 0.5)
    try:
        train(settings(tmp_path, num_actors=2), make_environment=make)
        assert hanging.is_set() and newest(tmp_path).counters["updates"] > 0
        told = [line for line in capsys.readouterr().out.splitlines() if "did not end" in line]
        assert len(told) == 1 and told[0].startswith("warning: actor 1 did not end within 0.5 s;")
    finally:
        released.set()
        for thread in threading.enumerate():
            if thread.name.startswith("actor"):
                thread.join(60)


def test_the_last_checkpoint_is_there_before_what_goes_on_beside_is_ended(tmp_path):
    found: list[int] = []

    class Beside:
        def offer(self, learner: Any, environment_frames: int) -> None:
            pass

        def figures(self) -> dict[str, Any]:
            return {}

        def close(self) -> None:
            found.append(newest(tmp_path).counters["updates"])

    train(settings(tmp_path), companions=lambda *_: [Beside()])
    assert found == [newest(tmp_path).counters["updates"]]


def test_a_damaged_newest_checkpoint_is_reported_and_the_previous_one_used(tmp_path, capsys):
    train(settings(tmp_path))
    train(settings(tmp_path, total_environment_frames=800))
    (tmp_path / "checkpoints" / "best.npz").unlink(missing_ok=True)
    earlier, damaged = sorted((tmp_path / "checkpoints").glob("frames-*"))
    frames = int(earlier.stem.removeprefix("frames-"))
    damaged.write_bytes(damaged.read_bytes()[:-100])
    leftover = tmp_path / "checkpoints" / f".frames-{900:015d}.npz.77.tmp"
    leftover.touch()
    capsys.readouterr()
    train(settings(tmp_path, total_environment_frames=1200))
    printed = capsys.readouterr().out
    assert f"warning: {damaged} is damaged" in printed
    assert f"at {frames} frames" in printed
    assert newest(tmp_path).counters["environment_frames"] >= 1200
    assert not leftover.exists()


def best_return(store):
    best = store.best(print)
    return best and best.counters["best_return"]


def test_the_best_checkpoint_is_kept_if_the_resumed_one_does_not_record_it(tmp_path):
    train(settings(tmp_path))
    kept, store = newest(tmp_path), Store(tmp_path / "checkpoints", 3)
    kept.counters["best_return"] = 100.0
    store.save_best(kept)
    kept.counters["best_return"] = None
    store.save(kept)
    train(settings(tmp_path, total_environment_frames=800))
    assert best_return(store) == 100.0


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_best_checkpoint_that_cannot_be_read_is_replaced(tmp_path, capsys, how):
    train(settings(tmp_path))
    best, store = tmp_path / "checkpoints" / "best.npz", Store(tmp_path / "checkpoints", 3)
    assert best_return(store) == RETURNS[level(Steps)]
    best.unlink()
    if how == "damaged":
        best.write_bytes(b"PK")
    train(settings(tmp_path, total_environment_frames=800))
    assert best_return(store) == RETURNS[level(Steps)]
    assert (f"warning: {best} is damaged" in capsys.readouterr().out) == (how == "damaged")


def flags(folder: Path, *more: str) -> list[str]:
    """The flags of a short training, and more."""
    return [
        f"--level_name={level(Steps)}",
        f"--logdir={folder}",
        "--total_environment_frames=400",
        "--batch_size=4",
        "--envs_per_actor=2",
        *more,
    ]


def refusal(capsys, *arguments: str) -> str:
    """The one line that reports a mistake."""
    capsys.readouterr()
    assert experiment.main(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("experiment.py: ") and printed.err.count("\n") == 1
    return printed.err


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("--level_name=Pnog-v4", ["--level_name", "Pnog-v4"]),
        ("--level_name=no.such.module:make", ["no.such.module:make", "no module"]),
        ("--level_name=tests.trainer.levels:Stepps", ["Stepps", "Did you mean Steps"]),
        (
            f"--level_name={level(Pictures)},CartPole-v1",
            ["cannot share an agent"],
        ),
        ("--agent_name=VectorAgnet", ["--agent_name=VectorAgnet", "VectorAgent"]),
        ("--agent_name=ResNetAgent", ["ResNetAgent needs images", "VectorAgent"]),
        ("--agent_name=no.such:Agent", ["--agent_name=no.such:Agent", "cannot import"]),
        ("--agent_name=json:dumps", ["--agent_name=json:dumps", "not an agent"]),
        ("--lerning_rate=1", ["--lerning_rate", "--learning_rate"]),
        ("--discounting=2", ["--discounting=2"]),
        ("--batch_size=0", ["--batch_size=0"]),
    ],
)
def test_a_mistake_is_reported_in_one_line_and_nothing_is_created(tmp_path, capsys, wrong, words):
    error = refusal(capsys, *flags(tmp_path / "run", wrong))
    for word in words:
        assert word in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["/proc/run", "{}/file", "{}/file/run"])
def test_a_folder_that_cannot_be_written_is_reported_in_one_line(tmp_path, capsys, where):
    (tmp_path / "file").touch()
    folder = where.format(tmp_path)
    assert f"--logdir={folder} cannot be written" in refusal(capsys, *flags(Path(folder)))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


SIZE = ["--width=40", "--height=40"]


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ([], ["--agent_name=VectorLSTMAgent"], "--agent_name=VectorLSTMAgent does not fit"),
        ([], ["--optimizer=rmsprop"], "trained with --optimizer=adam."),
        ([], ["--nopopart"], "trained with --popart=True."),
        (
            [],
            [f"--level_name={level(TwoChoices)}"],
            "TwoChoices (actions MultiDiscrete([2 3]) instead of Discrete(2)) does not fit",
        ),
        (
            [],
            [f"--level_name={level(Steps)},{level(Tens)}"],
            f"--level_name={level(Steps)},{level(Tens)} (weights of other shapes)",
        ),
        (
            [f"--level_name={level(Pictures)}", *SIZE],
            [f"--level_name={level(Pictures)}", "--width=44", "--height=40"],
            "trained with --width=40.",
        ),
        (
            [f"--level_name={level(Pictures)}", *SIZE, "--nobackdrop"],
            [f"--level_name={level(Pictures)}", *SIZE],
            "trained with --backdrop=False.",
        ),
    ],
    ids=["agent", "optimizer", "popart", "actions", "levels", "size", "backdrop"],
)
def test_a_resume_that_does_not_fit_is_refused_and_changes_nothing(
    tmp_path, capsys, before, now, message
):
    assert experiment.main(flags(tmp_path, *before)) == 0
    kept = contents(tmp_path)
    assert message in refusal(capsys, *flags(tmp_path, "--total_environment_frames=900", *now))
    assert contents(tmp_path) == kept


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
    assert "3 updates in a row" in str(error.value)
    assert f"The last good checkpoint is {tmp_path}/checkpoints/frames-" in str(error.value)
    assert all(np.isfinite(weight).all() for weight in newest(tmp_path).weights.values())


@pytest.mark.parametrize("environment", [Breaks, Leaves])
def test_an_error_in_an_environment_ends_the_training_and_names_the_actor(tmp_path, environment):
    with pytest.raises(ActorFailed, match=f"actor [01], which plays {level(environment)}, ended"):
        train(settings(tmp_path, level_name=level(environment), total_environment_frames=10**6))
    assert newest(tmp_path).counters["environment_frames"] > 0
    assert "Ended by an error: actor" in (tmp_path / "train.log").read_text()


def test_a_mistake_that_shows_while_it_trains_costs_nothing_that_was_learned(tmp_path):
    with pytest.raises(UserError, match="^the page cannot be loaded any more$"):
        train(settings(tmp_path, level_name=level(Refuses), total_environment_frames=10**6))
    assert newest(tmp_path).counters["environment_frames"] > 0


def test_a_time_limit_ends_a_training_without_a_batch(tmp_path, monkeypatch):
    released = threading.Event()

    def make(chosen: Settings, actor: int, start: int) -> VectorEnvironment:
        released.wait()
        return build.actor_environment(chosen, actor, start)

    monkeypatch.setattr(local_actors, "END_WITHIN_S", 0.1)
    try:
        outcome = train(settings(tmp_path, stop_after_s=1.0), make_environment=make)
        assert outcome.reason == "1 s have passed (--stop_after_s)"
    finally:
        released.set()
        for thread in threading.enumerate():
            if thread.name.startswith("actor"):
                thread.join(60)


def test_the_error_names_the_level_that_failed(tmp_path):
    levels = f"{level(Steps)},{level(Breaks)}"
    with pytest.raises(ActorFailed, match=f"actor 1, which plays {level(Breaks)}"):
        train(settings(tmp_path, level_name=levels, total_environment_frames=10**6))


def test_a_failed_training_releases_its_folder(tmp_path):
    for _ in range(2):
        with pytest.raises(ActorFailed):
            train(settings(tmp_path, level_name=level(Breaks), total_environment_frames=10**6))


def test_if_a_thread_cannot_start_no_actor_is_left_running(tmp_path, monkeypatch):
    start = threading.Thread.start

    def refuse_the_third(thread: threading.Thread) -> None:
        if thread.name == "actor 2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_the_third)
    with pytest.raises(UserError, match="--num_actors=4: cannot start this many threads"):
        train(settings(tmp_path, num_actors=4))
