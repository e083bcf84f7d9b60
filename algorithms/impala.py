"""IMPALA: an actor-critic that corrects for policy lag with V-trace."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import vtrace
from agents import AgentOutput, Heads
from algorithms import losses
from algorithms.advantage_scale import AdvantageScale
from algorithms.algorithm import Algorithm, Loss
from algorithms.popart import PopArt
from algorithms.trajectory import Unroll
from user_error import UserError


class Impala(Algorithm):
    """Policy gradient, baseline and entropy, each a mean over real transitions."""

    samples = ("baseline", "advantage", "log_importance_weight")

    def __init__(self, settings: Any, levels: int):
        super().__init__(settings, levels)
        self.heads = Heads(values=levels if settings.popart else 1)
        self.costs = losses.Costs(settings)
        self._popart: PopArt | None = None
        self._scale = AdvantageScale(levels) if settings.normalise_advantages else None

    @property
    def holds_after(self) -> int:  # type: ignore[override]
        """Without V-trace's weights, what the policy did not choose would mislead it."""
        return self.settings.hold_actions_after if self.settings.correction == "vtrace" else 0

    def start(self, agent: Any) -> None:
        """Creates PopArt's estimates, with ``--popart``."""
        self.costs.start()
        if self.settings.popart:
            if getattr(agent, "baseline_head", None) is None:
                raise UserError(
                    f"--agent_name: {type(agent).__name__} has no baseline_head, which --popart "
                    "rescales. Give it one like that of agents.Agent, or give --nopopart."
                )
            self._popart = PopArt(agent.baseline_head, self.levels)

    @property
    def kept(self) -> dict[str, tf.Variable]:
        """PopArt's estimates, and those of the size of advantages."""
        parts = (self._popart, self._scale)
        return {name: one for part in parts if part for name, one in part.kept.items()}

    def scale_of_values(self, kept: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """PopArt's spread and mean, with ``--popart``."""
        return PopArt.scale(kept) if self.settings.popart else super().scale_of_values(kept)

    def loss(self, agent: Any, batch: Unroll, prepared: Any) -> Loss:
        """The weighted sum of the three losses."""
        settings, step, distribution = self.settings, batch.environment, agent.distribution
        output, _ = agent(
            step.observation, step.reward, batch.action, step.first, batch.initial_state
        )
        head, values = self._baseline(output, batch.level)
        policy, baseline = output.policy[:-1], values[:-1]
        log_prob = distribution.log_prob(policy, batch.action[1:])
        log_rhos = log_prob - batch.recorded["log_prob"][1:]
        corrected = log_rhos if settings.correction == "vtrace" else tf.zeros_like(log_rhos)
        returns = self._returns(batch, values, corrected)
        targets, advantages = returns
        if self._popart:
            targets = self._popart.normalise(targets, batch.level)
            advantages /= self._popart.spread(batch.level)
        weights = 1.0 - tf.cast(step.first[1:], tf.float32)
        if settings.clip_ratio:  # PPO's objective weights advantages itself
            advantages /= tf.minimum(tf.exp(_limited(corrected)), settings.vtrace_rho)
        sums = self._sums(returns.vs, advantages, batch.level, weights)
        if self._scale:
            advantages = self._scale.scaled(advantages, batch.level)
        policy_loss = self._policy_loss(log_prob, log_rhos, advantages, weights)
        baseline_loss = vtrace.baseline_loss(head[:-1], targets, weights)
        entropy = -vtrace.entropy_loss(distribution.entropy(policy), weights)
        total, figures = self.costs.combined(policy_loss, baseline_loss, entropy)
        return Loss(
            total=total,
            weights=weights,
            figures={
                **figures,
                "baseline_spread": losses.spread(baseline, weights),
                "importance_weight": losses.mean(tf.exp(tf.minimum(log_rhos, 10.0)), weights),
            },
            samples={
                "baseline": baseline,
                "advantage": advantages,
                "log_importance_weight": log_rhos,
            },
            sums=sums,
        )

    def _returns(self, batch: Unroll, values: tf.Tensor, log_rhos: tf.Tensor) -> Any:
        """V-trace's targets and advantages, by values [T + 1, B] and importance weights [T, B]."""
        settings, step = self.settings, batch.environment
        discounts = settings.discounting * (1.0 - tf.cast(step.terminated[1:], tf.float32))
        rewards = vtrace.clip_rewards(step.reward[1:], settings.reward_clipping)
        rewards, discounts = vtrace.mask_resets(rewards, discounts, values[:-1], step.first[1:])
        return vtrace.from_importance_weights(
            log_rhos,
            discounts,
            rewards,
            values[:-1],
            values[-1],
            clip_rho_threshold=settings.vtrace_rho,
            clip_pg_rho_threshold=settings.vtrace_rho,
            lambda_=settings.vtrace_lambda,
            clip_c_threshold=settings.vtrace_c,
        )

    def _policy_loss(
        self,
        log_prob: tf.Tensor,
        log_rhos: tf.Tensor,
        advantages: tf.Tensor,
        weights: tf.Tensor,
    ) -> tf.Tensor:
        """V-trace's policy gradient or, with ``--clip_ratio``, PPO's objective; [T, B] each."""
        limit = self.settings.clip_ratio
        if not limit:
            return vtrace.policy_gradient_loss(log_prob, advantages, weights)
        ratio = tf.exp(_limited(log_rhos) + log_prob - tf.stop_gradient(log_prob))
        return losses.clipped_objective(ratio, advantages, limit, weights)

    def advance(self, run_left: float) -> None:
        """Moves the entropy's cost on."""
        self.costs.advance(run_left)

    def no_sums(self) -> tf.Tensor:
        """Zeros of the shape of the sums of ``PopArt`` and ``AdvantageScale``, one below other."""
        return tf.zeros([5, self.levels])

    def _sums(
        self, targets: tf.Tensor, advantages: tf.Tensor, level: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        """[5, L]: what ``after_update`` needs of a batch."""
        none = self.no_sums()
        of_targets = self._popart.sums(targets, level, weights) if self._popart else none[:3]
        of_advantages = self._scale.sums(advantages, level, weights) if self._scale else none[3:]
        return tf.concat([of_targets, of_advantages], axis=0)

    def after_update(self, sums: tf.Tensor) -> None:
        """Moves the estimates of PopArt and of the size of advantages."""
        if self._popart:
            self._popart.update(sums[:3])
        if self._scale:
            self._scale.update(sums[3:])

    def _baseline(self, output: AgentOutput, level: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[T + 1, B] each: the baseline head's output for each unroll's level, and its value."""
        head = output.baseline
        if head.shape.rank == 3:
            head = tf.reduce_sum(head * tf.one_hot(level, head.shape[-1]), axis=-1)
        return head, self._popart.values(head, level) if self._popart else head


def _limited(log_rhos: tf.Tensor) -> tf.Tensor:
    """Logarithms of ratios that are finite; no gradient flows through them."""
    largest = losses.LARGEST_LOG_RATIO
    return tf.clip_by_value(tf.stop_gradient(log_rhos), -largest, largest)
