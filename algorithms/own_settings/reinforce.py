"""The settings of REINFORCE."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from algorithms.feeding import InStep
from algorithms.own_settings.a2c import A2CSettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class ReinforceSettings(A2CSettings):
    """One update for each ``--batch_size`` whole episodes."""

    implementation: ClassVar[str] = "algorithms.reinforce:Reinforce"
    defaults: ClassVar[Mapping[str, Any]] = {
        "unroll_length": 100,
        "batch_size": 4,
        "learning_rate": 0.005,
        "gradients_clipping": 5.0,
    }
    usual_entropy_cost: ClassVar[float] = 0.001

    normalise_advantages: bool = setting(
        True, "Learning", "advantages in units of their spread over a batch"
    )

    @property
    def feeding(self) -> InStep:
        """How batches are fed."""
        return InStep(whole_episodes=True)
