"""IMPALA with PPO's objective, and advantages in units of their usual size."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from algorithms.advantage_scale import AdvantageScale
from algorithms.own_settings.impala import ImpalaSettings
from algorithms.trajectory import Unroll
from tests.trainer.levels import Steps, level
from tests.trainer.training import Parts, block, parts, small
from trainer import build

PLAIN: dict[str, Any] = {
    "entropy_cost": 0.0,
    "baseline_cost": 0.0,
    "popart": False,
    "replay_share": 0.0,
    "normalise_observations": False,
    "reward_clipping": "none",
    "unroll_length": 12,
}

CORRECTIONS = pytest.mark.parametrize("correction", ["vtrace", "none"])


def made(**changes: Any) -> tuple[Parts, Unroll]:
    settings = small(level(Steps), **PLAIN | changes)
    return parts(settings), block(settings)


def played_with(batch: Unroll, change: np.ndarray) -> Unroll:
    """The batch as if its actions had been more likely by a factor e^change [T, B] when played."""
    recorded = batch.recorded["log_prob"].copy()
    recorded[1:] += change
    return batch._replace(recorded={**batch.recorded, "log_prob": recorded})


def gradients(trained: Parts, batch: Unroll) -> list[np.ndarray]:
    learner = trained.learner
    with tf.GradientTape() as tape:
        loss = learner.algorithm.loss(learner.agent, batch, None)
    weights = learner.agent.trainable_variables
    found = tape.gradient(loss.total, weights, unconnected_gradients="zero")
    return [one.numpy() for one in found]


def test_where_the_policy_has_not_changed_it_is_v_traces_policy_gradient():
    clipped, batch = made(clip_ratio=0.2)
    plain, _ = made(clip_ratio=0.0)
    for one, other in zip(gradients(clipped, batch), gradients(plain, batch), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    assert any(one.any() for one in gradients(clipped, batch))


@CORRECTIONS
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_action_that_has_changed_enough_in_the_right_direction_pays_no_more(sign, correction):
    trained, batch = made(clip_ratio=0.2, discounting=0.0, correction=correction)
    far = played_with(batch, np.full(batch.recorded["log_prob"][1:].shape, -sign * 0.5))
    # Without a discount, an advantage is a reward less a value.
    rewards = np.full_like(batch.environment.reward, sign * 100.0)
    paid = far._replace(environment=batch.environment._replace(reward=rewards))
    assert not any(one.any() for one in gradients(trained, paid))
    lost = far._replace(environment=batch.environment._replace(reward=-rewards))
    assert any(one.any() for one in gradients(trained, lost))


@CORRECTIONS
def test_a_reward_counts_as_much_as_in_ppo_however_unlikely_its_action_has_become(correction):
    trained, batch = made(clip_ratio=0.2, discounting=0.0, correction=correction)
    change = np.random.default_rng(0).normal(0, 0.5, batch.recorded["log_prob"][1:].shape)
    loss = trained.learner.algorithm.loss(
        trained.learner.agent, played_with(batch, change.astype(np.float32)), None
    )
    real = ~batch.environment.first[1:]
    agent, step = trained.learner.agent, batch.environment
    output, _ = agent(step.observation, step.reward, batch.action, step.first, batch.initial_state)
    now = agent.distribution.log_prob(output.policy[:-1], batch.action[1:]).numpy()
    ratio = np.exp(now - batch.recorded["log_prob"][1:] - change)[real]
    advantage = (step.reward[1:] - output.baseline[:-1].numpy())[real]
    wanted = -np.mean(np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage))
    assert float(loss.total) == pytest.approx(wanted, rel=1e-3)


def test_advantages_of_each_level_are_measured_in_their_own_size():
    scale, level_of = AdvantageScale(3), np.array([0, 2])
    random = np.random.default_rng(1)
    for _ in range(300):
        given = random.normal(0, [5.0, 0.01], size=[50, 2]).astype(np.float32)
        scale.update(scale.sums(given, level_of, tf.ones_like(given)))
    shown = scale.scaled(given, level_of).numpy()
    np.testing.assert_allclose(np.sqrt(np.mean(shown**2, axis=0)), 1.0, rtol=0.25)
    assert scale.kept["advantage_square"].numpy()[1] == 1.0


def test_sums_of_pieces_and_of_learners_add_up():
    scale, random = AdvantageScale(2), np.random.default_rng(2)
    given = random.normal(size=[7, 4]).astype(np.float32)
    weights, level_of = (random.random([7, 4]) < 0.8).astype(np.float32), np.array([0, 1, 1, 0])
    whole = scale.sums(given, level_of, weights)
    halves = [
        scale.sums(given[:, cut], level_of[cut], weights[:, cut])
        for cut in (slice(0, 2), slice(2, 4))
    ]
    np.testing.assert_allclose(whole, halves[0] + halves[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "wanted"), [("Pendulum-v1", (0.2, True)), ("CartPole-v1", (0, False))]
)
def test_they_are_the_default_where_actions_are_numbers(name, wanted):
    settings = small(name)
    completed = build.complete(settings, build.level_spec(settings))
    chosen = completed.algorithm
    assert isinstance(chosen, ImpalaSettings)
    assert (chosen.clip_ratio, chosen.normalise_advantages) == wanted
    assert ("advantage_square" in parts(completed).learner.algorithm.kept) == wanted[1]
