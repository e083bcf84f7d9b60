"""Returns, advantages and losses of PPO and A2C against rlax and against plain NumPy."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from algorithms.a2c import A2C
from algorithms.on_policy import Prepared
from algorithms.ppo import PPO
from algorithms.trajectory import Unroll
from tests.rlax_process import evaluated, needs_rlax
from tests.trainer.levels import Steps, level
from tests.trainer.training import Parts, block, parts, small, values_of
from trainer.learning import minibatches


def made(algorithm: str, **changes: Any) -> tuple[Parts, Unroll]:
    """A learner, and a batch in which episodes end and begin."""
    chosen: dict[str, Any] = {
        "unroll_length": 12,
        "reward_clipping": "none",
        "normalise_observations": False,
    }
    settings = small(level(Steps), algorithm=algorithm, **chosen | changes)
    return parts(settings), block(settings)


def plain_advantages(rewards, discounts, values, lambda_):
    """Generalised advantage estimation [T] of one episode's piece, row by row from the end."""
    advantages, following = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        error = rewards[t] + discounts[t] * values[t + 1] - values[t]
        advantages[t] = following = error + discounts[t] * lambda_ * following
    return advantages


@pytest.mark.parametrize("lambda_", [1.0, 0.95, 0.0])
def test_advantages_are_those_of_the_separate_episodes(lambda_):
    learner, batch = made("ppo", gae_lambda=lambda_, normalise_advantages=False)
    algorithm, agent = learner.learner.algorithm, learner.learner.agent
    prepared: Prepared = algorithm.prepare(agent, batch)
    steps = batch.environment
    assert steps.first[1:].any() and steps.terminated[1:].any()
    output, _ = agent(
        steps.observation, steps.reward, batch.action, steps.first, batch.initial_state
    )
    values = output.baseline.numpy().astype(np.float64)
    for column in range(values.shape[1]):
        cuts = [*np.flatnonzero(steps.first[:, column]), len(values)]
        for start, stop in zip([0, *cuts], cuts, strict=False):
            rows = slice(start, stop - 1)  # transitions from start to stop - 1
            if stop - start < 2:
                continue
            after = slice(start + 1, stop)
            wanted = plain_advantages(
                steps.reward[after, column],
                0.99 * ~steps.terminated[after, column],
                values[start:stop, column],
                lambda_,
            )
            np.testing.assert_allclose(prepared.advantage[rows, column], wanted, atol=1e-4)
    np.testing.assert_allclose(prepared.target, prepared.value + prepared.advantage, atol=1e-5)


@needs_rlax
def test_advantages_are_rlaxs_where_no_episode_ends():
    learner, batch = made("a2c", gae_lambda=0.9)
    never = np.zeros_like(batch.environment.first)
    batch = batch._replace(environment=batch.environment._replace(first=never, terminated=never))
    algorithm, agent = learner.learner.algorithm, learner.learner.agent
    assert isinstance(algorithm, A2C)
    prepared = algorithm.judged(batch, algorithm.outputs(agent, batch))
    values = np.concatenate([prepared.value, last_values(learner, batch)[None]])
    wanted = evaluated(
        "jax.vmap(lambda r, v: rlax.truncated_generalized_advantage_estimation("
        "r, 0.99 * jnp.ones_like(r), 0.9, v), 1, 1)(rewards, values)",
        rewards=batch.environment.reward[1:],
        values=values,
    )
    np.testing.assert_allclose(prepared.advantage, wanted, rtol=1e-4, atol=1e-4)


def last_values(learner: Parts, batch: Unroll) -> np.ndarray:
    steps = batch.environment
    output, _ = learner.learner.agent(
        steps.observation, steps.reward, batch.action, steps.first, batch.initial_state
    )
    return output.baseline[-1].numpy()


@needs_rlax
def test_the_clipped_objective_is_rlaxs():
    learner, batch = made("ppo", clip_ratio=0.2, entropy_cost=0.0, baseline_cost=0.0)
    algorithm, agent = learner.learner.algorithm, learner.learner.agent
    assert isinstance(algorithm, PPO)
    random = np.random.default_rng(0)
    old = algorithm.prepare(agent, batch)
    changed = tf.constant(random.normal(0, 0.4, old.log_prob.shape), tf.float32)
    prepared = old._replace(log_prob=old.log_prob + changed)
    got = algorithm.loss(agent, batch, prepared)
    real = ~batch.environment.first[1:]
    wanted = evaluated(
        "rlax.clipped_surrogate_pg_loss(ratios, advantages, 0.2)",
        ratios=np.exp(-changed.numpy())[real],
        advantages=prepared.advantage.numpy()[real],
    )
    assert float(got.total) == pytest.approx(float(wanted), rel=1e-4)
    share = np.mean(np.abs(np.exp(-changed.numpy())[real] - 1) > 0.2)
    assert float(got.figures["clipped_share"]) == pytest.approx(share, rel=1e-4)


def test_values_that_changed_too_far_count_with_the_larger_error():
    learner, batch = made("ppo", clip_values=0.1)
    algorithm = learner.learner.algorithm
    assert isinstance(algorithm, PPO)
    value, old, target = (tf.constant(x) for x in (1.0, 0.0, 2.0))
    prepared = Prepared(old, old, target, old)
    assert float(algorithm._value_errors(value, prepared)) == pytest.approx(0.5 * 1.9**2)
    assert float(algorithm._value_errors(value, prepared._replace(target=-target))) == (
        pytest.approx(0.5 * 3.0**2)
    )


def test_advantages_are_normalised_over_the_real_steps_of_all_learners():
    learner, batch = made("ppo")
    algorithm = learner.learner.algorithm
    prepared = algorithm.prepare(learner.learner.agent, batch)
    sums = algorithm.batch_sums(batch, prepared)
    real = ~batch.environment.first[1:]
    assert sums is not None
    twice = algorithm.with_sums(prepared, sums + sums)  # two learners with equal batches
    shown = twice.advantage.numpy()[real]
    assert shown.mean() == pytest.approx(0, abs=1e-4) and shown.std() == pytest.approx(1, abs=1e-3)


def test_advantages_that_are_large_and_nearly_alike_are_normalised_too():
    learner, batch = made("ppo")
    algorithm = learner.learner.algorithm
    prepared = algorithm.prepare(learner.learner.agent, batch)
    random = np.random.default_rng(0)
    large = random.normal(1000, 0.05, prepared.advantage.shape).astype(np.float32)
    prepared = prepared._replace(advantage=tf.constant(large))
    sums = algorithm.batch_sums(batch, prepared)
    assert sums is not None
    shown = algorithm.with_sums(prepared, sums).advantage.numpy()[~batch.environment.first[1:]]
    assert shown.mean() == pytest.approx(0, abs=0.01) and shown.std() == pytest.approx(1, abs=0.01)


def test_a_reward_that_is_not_finite_spoils_the_advantages_of_its_own_unroll_only():
    learner, batch = made("ppo")
    algorithm, reward = learner.learner.algorithm, batch.environment.reward.copy()
    reward[3, 0] = np.nan
    batch = batch._replace(environment=batch.environment._replace(reward=reward))
    prepared = algorithm.prepare(learner.learner.agent, batch)
    sums = algorithm.batch_sums(batch, prepared)
    assert sums is not None
    advantage = algorithm.with_sums(prepared, sums).advantage.numpy()
    assert np.isnan(advantage[:, 0]).any() and np.isfinite(advantage[:, 1:]).all()


@pytest.mark.parametrize("normalise", [True, False])
def test_ppo_with_one_epoch_one_minibatch_and_no_clipping_equals_a2c(normalise):
    same: dict[str, Any] = {
        "gae_lambda": 0.9,
        "normalise_advantages": normalise,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "batch_size": 3,
    }
    ppo, batch = made("ppo", epochs=1, minibatches=1, clip_ratio=1e6, **same)
    a2c, _ = made("a2c", **same)
    assert isinstance(a2c.learner.algorithm, A2C)
    for mine, theirs in zip(a2c.learner.variables, ppo.learner.variables, strict=True):
        mine.assign(theirs)
    for learner, length in ((ppo.learner, 4), (a2c.learner, 0)):
        for _ in range(3):
            pieces, prepared = learner.rollout(batch, length)
            assert pieces is not None
            indices = np.random.default_rng(7).permutation(pieces.level.shape[0])
            mine = learner.contribution.of_some(pieces, prepared, indices)
            learner.move(*mine, run_left=1.0)
    for mine, theirs in zip(values_of(a2c.learner.weights), ppo.learner.weights, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_minibatches_of_an_epoch_add_up_to_the_whole_rollout():
    learner, batch = made("ppo", normalise_advantages=False)
    pieces, prepared = learner.learner.rollout(batch, 4)
    assert pieces is not None
    whole, _ = learner.learner.contribution(pieces, prepared)
    count = int(pieces.level.shape[0])
    passes = minibatches.Passes(epochs=1, minibatches=3, piece_length=4, pieces=count, seed=1)
    each = [
        learner.learner.contribution.of_some(pieces, prepared, indices)[0]
        for indices in passes.orders(count, updates=0)
    ]
    for index, gradient in enumerate(whole.gradients):
        parts_ = sum(one.gradients[index].numpy() for one in each)
        np.testing.assert_allclose(parts_ / 3, gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("xla", ["off", "on"])
def test_all_updates_of_a_rollout_in_one_call_are_those_made_one_by_one(xla):
    same: dict[str, Any] = {"epochs": 3, "minibatches": 3, "xla": xla, "learning_rate": 0.01}
    at_once, batch = made("ppo", **same)
    by_one, _ = made("ppo", **same)
    for mine, theirs in zip(at_once.learner.variables, by_one.learner.variables, strict=True):
        mine.assign(theirs)
    passes = minibatches.Passes(
        epochs=3, minibatches=3, piece_length=4, pieces=3 * batch.level.shape[0], seed=1
    )
    many = at_once.learner.learn_alone(batch, passes, run_left=0.5)
    learner = by_one.learner
    pieces, prepared = learner.rollout(batch, 4)
    single = []
    for indices in passes.orders(passes.pieces, updates=0):
        contribution, samples = learner.contribution.of_some(pieces, prepared, indices)
        single.append(learner.move(contribution, samples, run_left=0.5))
    assert len(many) == len(single) == at_once.learner.updates == learner.updates == 9
    for one, other in zip(many, single, strict=True):
        assert one.figures == pytest.approx(other.figures, rel=1e-3, abs=1e-5)
    for name, sample in many[-1].samples.items():
        np.testing.assert_allclose(sample, single[-1].samples[name], rtol=1e-3, atol=1e-5)
    for mine, theirs in zip(values_of(at_once.learner.weights), learner.weights, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)
    assert at_once.learner.learning_rate == learner.learning_rate == pytest.approx(0.005)


def test_updates_in_one_call_stop_once_the_policy_has_changed_enough():
    made_, batch = made(
        "ppo", epochs=50, minibatches=1, learning_rate=0.05, most_policy_change=0.02
    )
    passes = minibatches.Passes(50, 1, piece_length=4, pieces=3 * batch.level.shape[0], seed=1)
    done = made_.learner.learn_alone(batch, passes, run_left=1.0)
    assert 1 < len(done) < 50 and made_.learner.updates == len(done)
    assert done[-1].figures["policy_change"] > 0.02
    assert all(one.figures["policy_change"] <= 0.02 for one in done[:-1])


def test_learning_from_a_rollout_can_end_early():
    learner, _ = made("ppo", most_policy_change=0.02)
    algorithm = learner.learner.algorithm
    assert algorithm.is_enough({"policy_change": 0.03})
    assert not algorithm.is_enough({"policy_change": 0.01})
    assert not made("ppo")[0].learner.algorithm.is_enough({"policy_change": 1e9})


def test_a_learner_without_a_rollout_takes_part_with_zeros():
    learner, _ = made("ppo")
    assert learner.learner.rollout(None, 4) == (None, None)
    contribution, _ = learner.learner.contribution.of_some(None, None, np.zeros(0))
    assert all(not gradient.numpy().any() for gradient in contribution.gradients)
