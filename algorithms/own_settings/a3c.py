"""The settings of A3C."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from algorithms.feeding import Gradients
from algorithms.figures import Figure
from algorithms.own_settings.a2c import A2CSettings
from algorithms.own_settings.on_policy import OnPolicySettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class A3CSettings(OnPolicySettings):
    """Actors compute the gradients; ``--batch_size`` is the number of unrolls in each."""

    implementation: ClassVar[str] = A2CSettings.implementation
    figures: ClassVar[tuple[Figure, ...]] = A2CSettings.figures
    normalise_advantages: ClassVar[bool] = False  # no actor knows the others' advantages
    defaults: ClassVar[Mapping[str, Any]] = {
        "unroll_length": 20,
        "batch_size": 8,
        "num_actors": 2,
        "learning_rate": 0.0006,
    }

    gae_lambda: float = setting(
        1.0,
        "Learning",
        "generalised advantage estimation: 1 uses n-step returns, as long as an unroll; less "
        "trusts the baseline more",
        least=0,
        most=1,
    )
    shared_optimizer: bool = setting(
        True,
        "Learning",
        "the learner's optimizer takes all actors' gradients; off: each actor has an optimizer "
        "of its own and sends the steps that it advises",
    )

    @property
    def feeding(self) -> Gradients:
        """How batches are fed."""
        return Gradients(self.shared_optimizer)
