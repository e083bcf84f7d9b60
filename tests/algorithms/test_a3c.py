"""A3C: gradients are computed by actors, and applied as they come."""

import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import credentials
from benchmarks.tools.ports import free_port
from tests.cluster.conftest import wait_for
from tests.trainer.cluster import Process, alone, experiment
from tests.trainer.levels import Steps, Unhurried, level
from tests.trainer.training import block, parts, small, values_of
from trainer import build
from trainer.learning.learner import Learner
from trainer.learning.worker import Worker, blank_computed
from trainer.programs import local
from trainer.programs.local import train
from trainer.remote import wire
from trainer.remote.peers import _distance
from trainer.settings import config
from trainer.settings.checks import check
from trainer.settings.config import Settings
from trainer.storage.records import read_metrics
from transport import messages
from user_error import UserError

CLUSTER = pytest.mark.xdist_group("trainer cluster")


def settings_of(algorithm: str, **changes: Any) -> Settings:
    return small(level(Steps), algorithm=algorithm, **changes)


def weights_of_one_worker(
    algorithm: str, folder: Path, monkeypatch: Any, **changes: Any
) -> list[list[np.ndarray]]:
    """The weights after each update of a short training with one actor in one environment."""
    monkeypatch.setattr(local.cores, "divide", lambda **_: 1)
    after: list[list[np.ndarray]] = []
    move = Learner.move

    def noted(learner: Learner, *given: Any) -> Any:
        statistics = move(learner, *given)
        after.append(values_of(learner.weights))
        return statistics

    settings = settings_of(
        algorithm, logdir=str(folder / algorithm), total_environment_frames=600, batch_size=1,
        envs_per_actor=1, unroll_length=5, learning_rate=0.01, **changes,
    )  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setattr(Learner, "move", noted)
        assert train(settings).figures["updates"] == len(after) > 50
    return after


# A2C's, by optimizer: they are the same for all of A3C that have it.
OF_A2C: dict[str, list[list[np.ndarray]]] = {}
TOGETHER = pytest.mark.xdist_group("weights of a2c")


@pytest.mark.parametrize(
    ("optimizer", "shared"),
    [
        pytest.param("adam", True, marks=TOGETHER),
        pytest.param("adam", False, marks=TOGETHER),
        # Its steps are calculated in test_optimizers.py; what an actor does with them is as above.
        pytest.param("rmsprop", False, marks=pytest.mark.extras),
    ],
)
def test_one_worker_learns_what_a2c_learns_update_by_update(
    optimizer, shared, tmp_path, monkeypatch
):
    changes = {"optimizer": optimizer, "shared_optimizer": shared}
    a3c = weights_of_one_worker("a3c", tmp_path, monkeypatch, **changes)
    if optimizer not in OF_A2C:
        one = weights_of_one_worker("a2c", tmp_path, monkeypatch, optimizer=optimizer)
        OF_A2C[optimizer] = one
    a2c = OF_A2C[optimizer]
    assert len(a3c) == len(a2c) and len(a2c[0]) > 4
    for update, pair in enumerate(zip(a3c, a2c, strict=True)):
        for mine, theirs in zip(*pair, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5, err_msg=str(update))


def worker_of(made: Any) -> Worker:
    settings = made.settings
    player = build.player(settings, build.acting_agent(settings, made.spec))
    assert isinstance(player, Worker)
    player.load([tf.identity(weight) for weight in made.learner.weights], 7)
    return player


def test_gradients_are_those_that_a_learner_computes():
    made = parts(settings_of("a3c"))
    batch = block(made.settings)
    worker = worker_of(made)
    theirs, _ = made.learner.contribution(batch)
    mine = worker.finish(batch).contribution
    for one, other in zip(tf.nest.flatten(mine), tf.nest.flatten(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_gradients_travel_as_bytes_without_observations():
    made = parts(settings_of("a3c"))
    batch = block(made.settings)
    sent = worker_of(made).finish(batch)
    unroll = build.unroll(made.settings, made.spec, made.learner.agent)
    layout = wire.block_layout(blank_computed(unroll, made.learner.contribution))
    came = layout.unpack(layout.pack(sent, count=len(batch.level)), count=len(batch.level))
    tf.nest.map_structure(np.testing.assert_array_equal, came, sent)
    assert came.unrolls.environment.observation == () and came.unrolls.action == ()


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({}, ""),
        ({"discounting": 0.9}, "discounting"),
        ({"shared_optimizer": False}, "shared_optimizer"),
        ({"activation": "relu"}, "activation is tanh at the learner and relu"),
        ({"activation": "tanh"}, ""),  # what it is here by default
        ({"learning_rate": 0.1}, ""),  # the learner's
    ],
)
def test_a_worker_with_other_rules_is_refused(changes, differing):
    found = differences(build.identity, changes)
    assert (differing in found) if differing else not found


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({}, ""),
        ({"learning_rate": 0.1}, "learning_rate"),
        ({"optimizer": "sgd"}, "optimizer"),
        ({"gradients_clipping": 7.0}, "gradients_clipping"),
        ({"total_environment_frames": 7}, "total_environment_frames"),  # the rate falls with them
        ({"discounting": 0.9}, "discounting"),  # as of actors
        ({"stop_after_s": 9.0, "queue_capacity": 7}, ""),  # each learner's own
    ],
)
def test_an_equal_learner_that_moves_otherwise_is_refused(changes, differing):
    found = differences(build.identity_of_learners, changes)
    assert (f"{differing} is" in found) if differing else not found


def differences(identity: Any, changes: dict[str, Any]) -> str:
    """How this identity of two processes differs, of which one has these changes."""
    prints, none = [], dict[str, Any]()
    for more in (none, changes):
        chosen = small(level(Steps), algorithm="a3c", **more)
        made = parts(chosen)
        blocks = build.blocks(chosen, made.spec, made.learner.agent, made.learner.contribution)
        prints.append(identity(chosen, made.spec, made.learner.agent, blocks))
    return messages.differences(prints[0], prints[1])


def test_how_far_learners_are_apart_counts_what_they_train():
    weights = [tf.Variable([3.0, 4.0]), tf.Variable([1e6], trainable=False)]
    assert _distance(weights, [np.array([3.0, 9.0]), np.array([2e6])]) == pytest.approx(1.0)


def test_a_worker_keeps_its_weights_until_it_asks_for_others():
    made = parts(settings_of("a3c"))
    worker = worker_of(made)
    assert worker.version == 7 and not worker.wait_for_other(7, 0.01)
    worker.load([tf.identity(weight) + 1.0 for weight in made.learner.weights], 8)
    before = worker.finish(block(made.settings)).contribution
    assert worker.version == 7
    assert worker.wait_for_other(7, 0.01) and worker.version == 8
    after = worker.finish(block(made.settings)).contribution
    assert not np.allclose(before.gradients[0], after.gradients[0])


def test_gradients_that_are_not_finite_leave_an_actors_optimizer_alone():
    made = parts(settings_of("a3c", shared_optimizer=False))
    batch, worker = block(made.settings), worker_of(made)
    reward = np.full_like(batch.environment.reward, np.inf)
    bad = batch._replace(environment=batch.environment._replace(reward=reward))
    assert not np.isfinite(worker.finish(bad).contribution.gradients[0]).all()
    assert np.isfinite(worker.finish(batch).contribution.gradients[0]).all()


def test_an_unroll_that_teaches_nothing_leaves_an_actors_optimizer_as_it_is():
    made = parts(settings_of("a3c", optimizer="adam", shared_optimizer=False))
    batch, worker = block(made.settings), worker_of(made)
    worker.finish(batch)  # so that there are moments
    assert worker._advice is not None
    slots = worker._advice._optimizer.slots
    before = values_of(slots)
    batch.environment.first[1:] = True  # as of an environment that has not run as it should
    sent = worker.finish(batch).contribution
    assert not sent.count and not any(np.any(one) for one in sent.gradients)
    for slot, value in zip(slots, before, strict=True):
        np.testing.assert_array_equal(slot.numpy(), value)


def test_many_workers_with_optimizers_of_their_own_print_no_warning(caplog):
    made = parts(settings_of("a3c", optimizer="adam", shared_optimizer=False))
    batch = block(made.settings)
    with caplog.at_level("WARNING", logger="tensorflow"):
        for _ in range(8):
            worker_of(made).finish(batch)
    assert not caplog.records


@CLUSTER
@pytest.mark.timeout(300)
def test_a_worker_that_dies_costs_its_gradient_only_and_a_learner_comes_back(tmp_path):
    common = [
        "--algorithm=a3c",
        f"--level_name={level(Unhurried)}",
        f"--learner_host=localhost:{free_port()}",
        f"--logdir={tmp_path}",
        "--total_environment_frames=10000000",
        "--peer_timeout_s=3",
        "--report_every_s=0.5",
    ]
    start = experiment("--job_name=learner", *common)[1:]
    actor = experiment("--job_name=actor", *common)[1:]
    with alone(*actor) as first, alone(*actor, "--task=1") as second:
        with alone(*start) as learner:
            first.wait_for("Connected")
            second.wait_for("Connected")
            learner.wait_for("frames/s")
            second.send(signal.SIGKILL)
            learner.wait_for("1 actor connected", times=2)
            learner.send(signal.SIGTERM)
            assert learner.wait(60) == 0, learner.output()
        with alone(*start) as again:  # with the weights for which the actor has played
            again.wait_for("Resuming from")
            again.wait_for("frames/s", times=3)
            again.send(signal.SIGTERM)
            assert again.wait(60) == 0, again.output()
        first.send(signal.SIGTERM)
        assert first.wait(30) == 0, first.output()
    rows = read_metrics(tmp_path)
    assert rows[-1]["skipped_updates"] == 0
    assert rows[-1]["policy_lag"] == 0  # nobody else's gradients come between


@CLUSTER
@pytest.mark.timeout(300)
def test_equal_learners_exchange_gradients_and_one_that_dies_comes_back(tmp_path):
    own = [f"localhost:{free_port()}" for _ in range(2)]
    common = [
        "--algorithm=a3c",
        f"--level_name={level(Unhurried)}",
        "--transport=secure",
        f"--credentials={tmp_path}/first/credentials/learner.pem",
        "--peer_timeout_s=3",
        "--report_every_s=0.5",
        "--total_environment_frames=10000000",
    ]
    credentials.make(tmp_path / "first" / "credentials")
    peers = f"--peers={','.join(own)}"

    def learner(index: int, folder: str) -> list[str]:
        where = [f"--learner_host={own[index]}", f"--logdir={tmp_path}/{folder}", peers]
        return experiment("--job_name=learner", *common, *where)[1:]

    def actor(index: int) -> list[str]:
        flags = [one.replace("learner.pem", "actor.pem") for one in common]
        where = [f"--learner_host={own[index]}", f"--task={index}"]
        return experiment("--job_name=actor", *flags, *where)[1:]

    with alone(*learner(0, "first")) as first, alone(*actor(0)), alone(*actor(1)):
        first.wait_for("waiting for the other learners")
        with alone(*learner(1, "second")) as second:
            first.wait_for("all learners are there")
            second.wait_for("learners 2  apart")
            second.send(signal.SIGKILL)
            second.wait(30)
        with alone(*learner(1, "second")) as again:
            again.wait_for("the learners start with the weights after")
            again.wait_for("First update")
            again.wait_for("learners 2  apart")
            wait_for(lambda: all(have_been_apart(tmp_path / one) for one in ("first", "second")))
            for one in (first, again):
                one.send(signal.SIGTERM)
                assert one.wait(60) == 0, one.output()
            said = again.output()
        assert "2 actors connected" not in first.output()  # learners are none
    # The one that came back counts what was played without it, so that both end alike.
    [updates] = re.findall(r"start with the weights after ([\d,]+) updates", said)
    chosen = config.parse([*common, "--job_name=learner"])
    least = int(updates.replace(",", "")) * chosen.learning.batch_size
    frames = read_metrics(tmp_path / "second")[-1]["environment_frames"]
    assert frames > least * chosen.actors.unroll_length > 0


@CLUSTER
@pytest.mark.timeout(300)
def test_a_learner_can_leave_another_that_is_frozen(tmp_path):
    own = [f"localhost:{free_port()}" for _ in range(2)]
    common = ["--algorithm=a3c", "--level_name=CartPole-v1", "--peer_timeout_s=30"]

    def learner(index: int) -> Process:
        where = [f"--learner_host={own[index]}", f"--logdir={tmp_path}/{index}"]
        return alone("--job_name=learner", f"--peers={','.join(own)}", *where, *common)

    with learner(0) as leaving, learner(1) as silent:
        leaving.wait_for("all learners are there")
        silent.wait_for("the learners start with")
        silent.send(signal.SIGSTOP)
        leaving.send(signal.SIGTERM)
        assert leaving.wait(60) == 0, leaving.output()


def have_been_apart(folder: Path) -> bool:
    """Whether a learner has reported a distance from the others' weights."""
    return any(row["learners_apart"] for row in read_metrics(folder))


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--algorithm=a2c", "--peers=a:1,b:2"], "--algorithm=a2c exchanges no gradients"),
        (["--algorithm=a3c", "--peers=a:1,b:2"], "--learner_host=localhost:8001 among them"),
        (["--algorithm=a3c", "--peers=localhost:8001"], "addresses of two learners or more"),
        (["--algorithm=a3c", "--peers=localhost:8001,b"], "--peers=b: expected host:port"),
    ],
)
def test_peers_that_cannot_work_are_refused(flags, complaint):
    with pytest.raises(UserError, match=complaint):
        check(config.parse(["--job_name=learner", "--level_name=CartPole-v1", *flags]))
