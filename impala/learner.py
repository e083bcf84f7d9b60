"""The learner: one update of the weights from one batch of unrolls."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import vtrace
from impala import optimizers
from impala.checkpoints import Checkpoint
from impala.config import Settings
from impala.popart import PopArt
from impala.trajectory import AgentOutput, Unroll


class Statistics(NamedTuple):
    """What one update tells about itself: scalars, and ``[T, B]`` samples for histograms."""

    total_loss: Any
    policy_gradient_loss: Any
    baseline_loss: Any
    entropy: Any
    baseline_spread: Any
    gradient_norm: Any
    importance_weight: Any
    skipped: Any  # 1.0 where loss or gradients were not finite and the update was left out
    baseline: Any
    advantage: Any
    log_importance_weight: Any


SCALARS = Statistics._fields[:7]
HISTOGRAMS = Statistics._fields[8:]


class Learner:
    """An agent's weights and optimizer; ``update`` moves both by one batch."""

    def __init__(self, agent: Any, settings: Settings):
        self.agent = agent
        self.weights = list(agent.trainable_variables)
        self.optimizer = optimizers.make(settings, self.weights)
        levels = len(settings.levels)
        self._popart = PopArt(agent.baseline_head, levels) if settings.popart else None
        self.updates = 0
        self.learning_rate = settings.learning_rate
        self._settings = settings
        on_gpu = bool(tf.config.list_physical_devices("GPU"))
        # On a CPU oneDNN's kernels are faster than what XLA makes of convolutions.
        self._step = tf.function(self._update, jit_compile=on_gpu)

    @property
    def slots(self) -> list[tf.Variable]:
        """What a checkpoint keeps besides the weights."""
        return self.optimizer.slots + (self._popart.slots if self._popart else [])

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint's weights, optimizer and count of updates."""
        for variables, values in (
            (self.weights, checkpoint.weights),
            (self.slots, checkpoint.optimizer),
        ):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        self.updates = checkpoint.counters["updates"]

    def update(self, batch: Unroll, share_left: float) -> Statistics:
        """Trains on ``batch``; ``share_left`` of the run is still to come (learning rate)."""
        self.learning_rate = self._settings.learning_rate * max(0.0, share_left)
        statistics = self._step(batch, np.float32(self.learning_rate))
        self.updates += 1
        return statistics

    def _update(self, batch: Unroll, learning_rate: tf.Tensor) -> Statistics:
        with tf.GradientTape() as tape:
            loss, targets, weights, statistics = self._loss(batch)
        gradients = tape.gradient(loss, self.weights)
        norm = tf.linalg.global_norm(gradients)
        if self._settings.gradients_clipping > 0:
            gradients, _ = tf.clip_by_global_norm(
                gradients, self._settings.gradients_clipping, use_norm=norm
            )
        good = tf.math.is_finite(loss) & tf.math.is_finite(norm)

        def apply() -> tf.Tensor:
            self.optimizer.apply(gradients, learning_rate)
            if self._popart:
                self._popart.update(targets, batch.level, weights)
            return tf.constant(True)

        tf.cond(good, apply, lambda: tf.constant(False))
        return statistics._replace(gradient_norm=norm, skipped=1.0 - tf.cast(good, tf.float32))

    def _baseline(self, output: AgentOutput, level: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[T + 1, B]: what the baseline head says of each unroll's level, and as values."""
        said = output.baseline
        if said.shape.rank == 3:
            said = tf.reduce_sum(said * tf.one_hot(level, said.shape[-1]), axis=-1)
        return said, self._popart.values(said, level) if self._popart else said

    def _loss(self, batch: Unroll) -> tuple[tf.Tensor, vtrace.VTraceReturns, tf.Tensor, Statistics]:
        """The weighted sum of the three losses, each a mean over real transitions.

        Also the baseline's targets and the weight of each transition (0 for resets), [T, B].
        """
        settings, step, distribution = self._settings, batch.environment, self.agent.distribution
        output, _ = self.agent(
            step.observation, step.reward, batch.action, step.first, batch.initial_state
        )
        said, values = self._baseline(output, batch.level)
        policy, baseline = output.policy[:-1], values[:-1]
        log_prob = distribution.log_prob(policy, batch.action[1:])
        log_rhos = log_prob - batch.action_log_prob[1:]
        is_reset = step.first[1:]
        discounts = settings.discounting * (1.0 - tf.cast(step.terminated[1:], tf.float32))
        rewards = vtrace.clip_rewards(step.reward[1:], settings.reward_clipping)
        rewards, discounts = vtrace.mask_resets(rewards, discounts, baseline, is_reset)
        returns = vtrace.from_importance_weights(
            log_rhos, discounts, rewards, baseline, values[-1], lambda_=settings.vtrace_lambda
        )
        targets, advantages = returns
        if self._popart:
            targets = self._popart.normalise(targets, batch.level)
            advantages /= self._popart.spread(batch.level)
        weights = 1.0 - tf.cast(is_reset, tf.float32)
        policy_loss = vtrace.policy_gradient_loss(log_prob, advantages, weights)
        baseline_loss = vtrace.baseline_loss(said[:-1], targets, weights)
        entropy = -vtrace.entropy_loss(distribution.entropy(policy), weights)
        total = (
            policy_loss + settings.baseline_cost * baseline_loss - settings.entropy_cost * entropy
        )
        statistics = Statistics(
            total_loss=total,
            policy_gradient_loss=policy_loss,
            baseline_loss=baseline_loss,
            entropy=entropy,
            baseline_spread=tf.math.reduce_std(baseline),
            gradient_norm=None,
            importance_weight=tf.reduce_mean(tf.exp(tf.minimum(log_rhos, 10.0))),
            skipped=None,
            baseline=baseline,
            advantage=advantages,
            log_importance_weight=log_rhos,
        )
        return total, returns.vs, weights, statistics
