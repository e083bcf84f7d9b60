"""The settings that the algorithms of rollouts share."""

import dataclasses

from algorithms.own_settings.rewards import RewardSettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class OnPolicySettings(RewardSettings):
    """How returns and advantages are computed, and how much the parts of the loss count."""

    gae_lambda: float = setting(
        0.95,
        "Learning",
        "generalised advantage estimation: 1 uses n-step returns, as long as an unroll; less "
        "trusts the baseline more",
        least=0,
        most=1,
    )
    entropy_cost: float = setting(0.01, "Learning", "weight of the entropy bonus", least=0)
    baseline_cost: float = setting(0.5, "Learning", "weight of the baseline's loss", least=0)
