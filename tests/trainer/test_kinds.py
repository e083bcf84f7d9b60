"""One agent on levels, and in bodies, that see and do different things: every algorithm and way."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

import credentials
from tests.trainer.cluster import TRANSPORTS, alone, experiment, free_address, mpirun
from tests.trainer.launching import newest
from tests.trainer.levels import Continuous, Steps, level
from tests.trainer.training import block, parts, small, values_of
from tests.trainer.untrained import make_run
from trainer import build
from trainer.programs import local, resuming
from trainer.programs.local import train
from trainer.settings.config import Settings
from trainer.storage.records import read_metrics
from trainer.trained import trained_agent
from trainer.trained.evaluation import evaluate
from trainer.trained.export import export
from user_error import UserError

SHIFT = "pettingzoo:tests.environments.bodies.game"
UNLIKE = "tests.environments.bodies.game:unlike"
RETURNS = {"early": 3.0, "whole": 21.0, "late": 15.0}


class Wide(Steps):
    """Episodes of 4 steps with a reward of 5 each; more numbers and more actions than Steps."""

    observation_space = spaces.Box(-1, 1, (5,), np.float32)
    action_space = spaces.Discrete(4)
    length = 4
    reward = 5.0

    def see(self, action: Any) -> Any:
        return np.append(super().see(action), [0.5, 0.25, 0.125]).astype(np.float32)


WIDE = "tests.trainer.test_kinds:Wide"
BOTH = f"{level(Steps)},{WIDE}"
OF_LEVELS = {level(Steps): 7.0, WIDE: 20.0}


def chosen(folder: Path, level_name: str, **changes: Any) -> Settings:
    return small(
        level_name, logdir=str(folder), num_actors=2, **{"total_environment_frames": 500} | changes
    )


@pytest.fixture(autouse=True)
def whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.cores, "divide", lambda **_: 1)


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("impala", {"popart": True}),
        ("ppo", {"epochs": 2}),
        ("double_dqn", {"replay_warm_up": 100, "replay_steps": 1000, "dueling": True}),
        # Its gradients come from the same code, and test_all.py trains it.
        pytest.param("a3c", {}, marks=pytest.mark.extras),
    ],
)
def test_every_algorithm_trains_bodies_that_differ(algorithm, changes, tmp_path):
    train(
        chosen(tmp_path, SHIFT, wrappers=UNLIKE, envs_per_actor=4, algorithm=algorithm, **changes)
    )
    last = read_metrics(tmp_path)[-1]
    assert last["agent_steps"] >= 500 and np.isfinite(last["total_loss"])
    assert last["skipped_updates"] == 0
    assert {body: last[f"mean_episode_return/{body}"] for body in RETURNS} == RETURNS


@pytest.mark.parametrize("other", [WIDE, level(Continuous)])
def test_levels_that_differ_are_trained_together_and_reported_apart(other, tmp_path):
    # Enough for episodes of both, also where one is made late.
    train(chosen(tmp_path, f"{level(Steps)},{other}", total_environment_frames=1500))
    last = read_metrics(tmp_path)[-1]
    assert np.isfinite(last["total_loss"]) and last["skipped_updates"] == 0
    assert last[f"mean_episode_return/{level(Steps)}"] == 7.0
    assert last[f"mean_episode_return/{other}"] == (20.0 if other == WIDE else 7.0)


def test_a_run_goes_on_and_its_agent_plays_any_of_its_levels(tmp_path):
    train(chosen(tmp_path, BOTH))
    train(chosen(tmp_path, BOTH, total_environment_frames=800))
    assert newest(tmp_path).counters["environment_frames"] >= 800
    for levels, expected in ((BOTH, OF_LEVELS), (WIDE, {WIDE: 20.0})):
        report = evaluate(
            Settings(mode="test", logdir=str(tmp_path), level_name=levels, test_num_episodes=2),
            ["level_name"],
        )
        means = {name: figures["mean"] for name, figures in report["levels"].items()}
        assert means == expected
    wrong = Settings(mode="test", logdir=str(tmp_path), level_name=level(Continuous))
    with pytest.raises(UserError, match="not for this agent") as refused:
        evaluate(wrong, ["level_name"])
    assert "\n" not in str(refused.value)
    swapped = ",".join(reversed(BOTH.split(",")))
    with pytest.raises(UserError, match="level_name") as refused:
        train(chosen(tmp_path, swapped, total_environment_frames=1200))
    assert "\n" not in str(refused.value)


def test_an_export_says_who_is_of_which_kind(tmp_path):
    make_run(tmp_path, BOTH, num_actors=2)
    export(Settings(mode="export", logdir=str(tmp_path)))
    about = json.loads((tmp_path / "export" / "about.json").read_text("utf-8"))
    assert [kind["bodies"] for kind in about["kinds"]] == [[level(Steps)], [WIDE]]
    assert [kind["action_space"] for kind in about["kinds"]] == ["Discrete(2)", "Discrete(4)"]
    assert "number of its kind" in (tmp_path / "export" / "README.md").read_text("utf-8")
    model = tf.saved_model.load(str(tmp_path / "export"))
    seen = np.zeros([2, 6], np.float32)
    seen[1, -1] = 1
    row = {
        "observation": tf.constant(seen),
        "reward": tf.zeros([2]),
        "last_action": tf.zeros([2], tf.int32),
        "first": tf.constant([True, True]),
        "seed": tf.constant([1, 2]),
    }
    answer = model.signatures["act"](**row)
    assert (answer["policy"].numpy() > -1e8).sum(axis=-1).tolist() == [2, 4]
    found = trained_agent.find(Settings(logdir=str(tmp_path)))
    agent = found.agent(found.spec(), "float32")
    names = ("observation", "reward", "last_action", "first")
    output, _ = agent(*(row[name][None] for name in names), agent.initial_state(2))
    np.testing.assert_allclose(answer["policy"], output.policy[0], atol=1e-5)


def test_a_level_alone_changes_the_layers_that_it_shares_and_its_own():
    settings = small(BOTH, num_actors=2, normalise_observations=True)
    made = parts(settings)
    agent: Any = made.learner.agent
    own = [
        [agent._torso._inputs[number].weights, agent._policy._heads[number].weights]
        for number in range(2)
    ]
    before = [values_of(each) for each in own]
    batch = block(settings)  # of the first level
    assert set(batch.level) == {0}
    made.learner.update(batch, 1.0)
    moved = [
        [not np.array_equal(a, b) for a, b in zip(one, values_of(each), strict=True)]
        for one, each in zip(before, own, strict=True)
    ]
    assert moved == [[True, True], [False, False]]


def test_random_unrolls_are_of_all_kinds():
    settings = small(BOTH, num_actors=2, batch_size=4)
    made = parts(settings)
    batch = build.random_unrolls(settings, made.spec, made.learner.agent)
    assert batch.environment.observation[0, :, -1].tolist() == [0, 1, 0, 1]
    assert batch.action[:, ::2].max() == 1 and batch.action[:, 1::2].max() == 3
    assert np.isfinite(float(made.learner.update(batch, 1.0).values[0]))


def test_actors_and_learners_must_agree_on_kinds():
    settings = small(BOTH, num_actors=2)
    made = parts(settings)
    blocks = build.blocks(settings, made.spec, made.acting, None)
    mine = build.identity(settings, made.spec, made.learner.agent, blocks)
    assert "float32[5] with Discrete(4)" in repr(mine)
    assert resuming.spaces(made.spec)["body_kinds"] == (
        "float32[2] with Discrete(2); float32[5] with Discrete(4)"
    )
    assert "body_kinds" not in resuming.spaces(build.level_spec(small(level(Steps))))


FLAGS = (
    f"--level_name={SHIFT}",
    f"--wrappers={UNLIKE}",
    "--envs_per_actor=4",
    "--unroll_length=5",
    "--batch_size=8",
    "--env_threads=1",
    "--report_every_s=0.5",
    "--total_environment_frames=2000",
)


@pytest.mark.xdist_group("trainer cluster")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_bodies_that_differ_play_for_a_learner_elsewhere(transport, tmp_path):
    address = free_address()
    flags = [*FLAGS, f"--transport={transport}"]
    if transport == "secure":
        credentials.make(tmp_path / credentials.FOLDER)
    flags.append(f"--logdir={tmp_path}")
    with (
        alone("--job_name=learner", f"--learner_host={address}", *flags) as learner,
        alone("--job_name=actor", "--task=0", f"--learner_host={address}", *flags) as actor,
    ):
        assert learner.wait(200) == 0, learner.output()
        assert actor.wait(60) == 0, actor.output()
    last = read_metrics(tmp_path)[-1]
    assert {body: last[f"mean_episode_return/{body}"] for body in RETURNS} == RETURNS


@pytest.mark.extras
@pytest.mark.xdist_group("trainer cluster")
def test_two_learners_share_bodies_that_differ(tmp_path):
    addresses = [free_address(), free_address()]
    own = [f"--logdir={tmp_path}", *FLAGS]
    programs = [
        experiment("--job_name=learner", f"--learner_host={address}", *own) for address in addresses
    ]
    with (
        mpirun(programs) as learners,
        alone("--job_name=actor", "--task=0", f"--learner_host={addresses[0]}", *own) as zero,
        alone("--job_name=actor", "--task=1", f"--learner_host={addresses[1]}", *own) as one,
    ):
        assert learners.wait(300) == 0, learners.output()
        assert "bit-identical" in learners.output()
        assert zero.wait(60) == 0 and one.wait(60) == 0
    last = read_metrics(tmp_path)[-1]
    assert {body: last[f"mean_episode_return/{body}"] for body in RETURNS} == RETURNS
