"""The settings that A2C and A3C share."""

import dataclasses
from typing import ClassVar

from algorithms.figures import OF_POLICY_AND_BASELINE, Figure
from algorithms.own_settings.on_policy import OnPolicySettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class ActorCriticSettings(OnPolicySettings):
    """One gradient for each unroll."""

    implementation: ClassVar[str] = "algorithms.a2c:A2C"
    figures: ClassVar[tuple[Figure, ...]] = OF_POLICY_AND_BASELINE

    gae_lambda: float = setting(
        1.0,
        "Learning",
        "generalised advantage estimation: 1 uses n-step returns, as long as an unroll; less "
        "trusts the baseline more",
        least=0,
        most=1,
    )
