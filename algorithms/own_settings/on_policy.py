"""The settings that the algorithms of rollouts share."""

import dataclasses
from typing import ClassVar, Self

from algorithms.own_settings.rewards import RewardSettings
from algorithms.settings import Kind
from flags import setting


@dataclasses.dataclass(frozen=True)
class OnPolicySettings(RewardSettings):
    """How returns and advantages are computed, and how much the parts of the loss count."""

    usual_entropy_cost: ClassVar[float] = 0.01

    gae_lambda: float = setting(
        0.95,
        "Learning",
        "generalised advantage estimation: 1 uses n-step returns, as long as an unroll; less "
        "trusts the baseline more",
        least=0,
        most=1,
    )
    entropy_cost: float | None = setting(
        None,
        "Learning",
        "weight of the entropy bonus; default: 0 where actions are numbers, otherwise 0.01, and "
        "0.001 for whole episodes",
        least=0,
    )
    baseline_cost: float = setting(0.5, "Learning", "weight of the baseline's loss", least=0)

    def completed(self, kind: Kind) -> Self:
        """With the usual entropy bonus."""
        done = super().completed(kind)
        if self.entropy_cost is not None:
            return done
        return dataclasses.replace(
            done, entropy_cost=0.0 if kind.continuous else self.usual_entropy_cost
        )
