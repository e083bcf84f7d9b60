"""What algorithms share whose actors play in step with the learner: returns and advantages."""

from typing import Any, NamedTuple

import tensorflow as tf

import vtrace
from agents import Heads
from algorithms.algorithm import Algorithm
from algorithms.losses import Costs
from algorithms.trajectory import Unroll

SMALLEST_SPREAD = 1e-8


class Prepared(NamedTuple):
    """What is known of each step before the first update with a rollout, [T, B] each."""

    log_prob: tf.Tensor  # of the action taken
    value: tf.Tensor
    target: tf.Tensor  # of the value: the lambda-return
    advantage: tf.Tensor


class Outputs(NamedTuple):
    """An agent's outputs for the steps of an unroll, [T, B] each."""

    log_prob: tf.Tensor  # of the action taken
    entropy: tf.Tensor
    value: tf.Tensor
    next_value: tf.Tensor


class OnPolicy(Algorithm):
    """Generalised advantage estimation over each unroll, once a rollout."""

    samples = ("value", "advantage")
    # Returns may be large, and the gradients of their errors then drown those of the policy.
    heads = Heads(separate=True)

    def __init__(self, settings: Any, levels: int):
        super().__init__(settings, levels)
        self.costs = Costs(settings)

    def start(self, agent: Any) -> None:
        """Makes the entropy's cost ready to change."""
        self.costs.start()

    def advance(self, run_left: float) -> None:
        """Moves the entropy's cost on."""
        self.costs.advance(run_left)

    def outputs(self, agent: Any, batch: Unroll) -> Outputs:
        """What an agent says of an unroll's steps."""
        step = batch.environment
        output, _ = agent(
            step.observation, step.reward, batch.action, step.first, batch.initial_state
        )
        policy = output.policy[:-1]
        return Outputs(
            agent.distribution.log_prob(policy, batch.action[1:]),
            agent.distribution.entropy(policy),
            output.baseline[:-1],
            output.baseline[1:],
        )

    def prepare(self, agent: Any, batch: Unroll) -> Any:
        """Targets and advantages, by the weights with which the rollout was played."""
        return self.judged(batch, self.outputs(agent, batch))

    def judged(self, batch: Unroll, given: Outputs) -> Prepared:
        """Targets and advantages of an unroll's steps by the values that an agent gave."""
        settings, step = self.settings, batch.environment
        rewards = vtrace.clip_rewards(step.reward[1:], settings.reward_clipping)
        discounts = settings.discounting * (1.0 - tf.cast(step.terminated[1:], tf.float32))
        rewards, discounts = vtrace.mask_resets(rewards, discounts, given.value, step.first[1:])
        # Without correction, V-trace's targets are lambda-returns.
        target = vtrace.from_importance_weights(
            tf.zeros_like(rewards),
            discounts,
            rewards,
            given.value,
            given.next_value[-1],
            lambda_=settings.gae_lambda,
        ).vs
        return Prepared(given.log_prob, given.value, target, target - given.value)

    def weights(self, batch: Unroll) -> tf.Tensor:
        """[T, B]: 1 for real transitions, 0 for resets."""
        return 1.0 - tf.cast(batch.environment.first[1:], tf.float32)

    def batch_sums(self, batch: Unroll, prepared: Prepared) -> tf.Tensor | None:
        """Number of steps, sum of advantages and of their squares, to normalise them."""
        if not self.settings.normalise_advantages:
            return None
        # A step that is not finite must not spoil all others.
        finite = tf.math.is_finite(prepared.advantage)
        weights = tf.cast(tf.where(finite, self.weights(batch), 0.0), tf.float64)
        # Squares of large numbers that differ little need all digits.
        advantage = tf.cast(tf.where(finite, prepared.advantage, 0.0), tf.float64)
        powers = (tf.ones_like(advantage), advantage, tf.square(advantage))
        return tf.stack([tf.reduce_sum(weights * power) for power in powers])

    def no_batch_sums(self) -> tf.Tensor | None:
        """Zeros of the same shape."""
        return tf.zeros([3], tf.float64) if self.settings.normalise_advantages else None

    def with_sums(self, prepared: Prepared, sums: tf.Tensor) -> Prepared:
        """With advantages in units of their spread over the rollouts of all learners."""
        count, total, squares = tf.unstack(sums)
        mean = tf.math.divide_no_nan(total, count)
        variance = tf.math.divide_no_nan(squares, count) - tf.square(mean)
        spread = tf.sqrt(tf.maximum(variance, 0.0)) + SMALLEST_SPREAD
        advantage = (tf.cast(prepared.advantage, tf.float64) - mean) / spread
        return prepared._replace(advantage=tf.cast(advantage, prepared.advantage.dtype))
