"""The settings of A2C."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from algorithms.feeding import InStep
from algorithms.figures import Figure
from algorithms.own_settings.on_policy import OnPolicySettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class A2CSettings(OnPolicySettings):
    """One update for each rollout."""

    implementation: ClassVar[str] = "algorithms.a2c:A2C"
    defaults: ClassVar[Mapping[str, Any]] = {
        "unroll_length": 5,
        "batch_size": 16,
        "optimizer": "rmsprop",
        "learning_rate": 0.0007,
    }
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
    normalise_advantages: bool = setting(
        False, "Learning", "advantages in units of their spread over a rollout"
    )

    @property
    def feeding(self) -> InStep:
        """How batches are fed."""
        return InStep()
