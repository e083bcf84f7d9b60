"""PPO: several epochs over each rollout, as long as the policy stays near the one that played."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

import vtrace
from algorithms import losses
from algorithms.algorithm import Loss
from algorithms.on_policy import OnPolicy, Prepared
from algorithms.trajectory import Unroll


class PPO(OnPolicy):
    """The clipped objective, the baseline and entropy, each a mean over real transitions."""

    def loss(self, agent: Any, batch: Unroll, prepared: Prepared) -> Loss:
        """The weighted sum of the three losses."""
        settings, weights = self.settings, self.weights(batch)
        now = self.outputs(agent, batch)
        log_ratio = tf.minimum(now.log_prob - prepared.log_prob, losses.LARGEST_LOG_RATIO)
        ratio, limit = tf.exp(log_ratio), settings.clip_ratio
        advantage = prepared.advantage
        policy_loss = losses.clipped_objective(ratio, advantage, limit, weights)
        baseline_loss = losses.mean(self._value_errors(now.value, prepared), weights)
        entropy = -vtrace.entropy_loss(now.entropy, weights)
        total, figures = self.costs.combined(policy_loss, baseline_loss, entropy)
        return Loss(
            total=total,
            weights=weights,
            figures={
                **figures,
                # An estimate of the KL divergence that is never negative.
                "policy_change": losses.mean(ratio - 1.0 - log_ratio, weights),
                "clipped_share": losses.mean(
                    tf.cast(tf.abs(ratio - 1.0) > limit, tf.float32), weights
                ),
            },
            samples={"value": now.value, "advantage": advantage},
            sums=self.no_sums(),
        )

    def _value_errors(self, value: tf.Tensor, prepared: Prepared) -> tf.Tensor:
        """[T, B]: half the squared errors, at least those of values that changed no further."""
        errors = tf.square(value - prepared.target)
        limit = self.settings.clip_values
        if limit:
            near = prepared.value + tf.clip_by_value(value - prepared.value, -limit, limit)
            errors = tf.maximum(errors, tf.square(near - prepared.target))
        return 0.5 * errors

    def is_enough(self, figures: Mapping[str, Any]) -> Any:
        """Whether the policy has changed by ``--most_policy_change``."""
        limit = self.settings.most_policy_change
        return bool(limit) and figures["policy_change"] > limit
