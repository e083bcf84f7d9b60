"""The settings that A2C and A3C share."""

import dataclasses
from typing import ClassVar

from algorithms.figures import Figure
from algorithms.own_settings.on_policy import OnPolicySettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class ActorCriticSettings(OnPolicySettings):
    """One gradient for each unroll."""

    implementation: ClassVar[str] = "algorithms.a2c:A2C"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("policy_gradient_loss", "policy gradient", "losses", in_line=False),
        Figure("baseline_loss", "baseline", "losses", in_line=False),
        Figure("entropy", "entropy", "learning"),
    )

    gae_lambda: float = setting(
        1.0,
        "Learning",
        "generalised advantage estimation: 1 uses n-step returns, as long as an unroll; less "
        "trusts the baseline more",
        least=0,
        most=1,
    )
