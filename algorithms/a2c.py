"""A2C: the policy gradient of rollouts that are played with the newest weights."""

from typing import Any

import vtrace
from algorithms.algorithm import Loss
from algorithms.on_policy import OnPolicy, Prepared
from algorithms.trajectory import Unroll


class A2C(OnPolicy):
    """Policy gradient, baseline and entropy, each a mean over real transitions."""

    def prepare(self, agent: Any, batch: Unroll) -> Any:
        """Nothing, unless it takes all learners' advantages: ``loss`` has the same weights."""
        return super().prepare(agent, batch) if self.settings.normalise_advantages else ()

    def loss(self, agent: Any, batch: Unroll, prepared: Prepared | tuple[()]) -> Loss:
        """The weighted sum of the three losses."""
        weights = self.weights(batch)
        now = self.outputs(agent, batch)
        prepared = prepared or self.judged(batch, now)
        policy_loss = vtrace.policy_gradient_loss(now.log_prob, prepared.advantage, weights)
        baseline_loss = vtrace.baseline_loss(now.value, prepared.target, weights)
        entropy = -vtrace.entropy_loss(now.entropy, weights)
        total, figures = self.costs.combined(policy_loss, baseline_loss, entropy)
        return Loss(
            total=total,
            weights=weights,
            figures=figures,
            samples={"value": now.value, "advantage": prepared.advantage},
            sums=self.no_sums(),
        )
