"""The settings of A2C."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from algorithms.feeding import InStep
from algorithms.own_settings.actor_critic import ActorCriticSettings
from algorithms.own_settings.entropy import EntropySettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class A2CSettings(EntropySettings, ActorCriticSettings):
    """One update for each rollout."""

    defaults: ClassVar[Mapping[str, Any]] = {
        "unroll_length": 5,
        "batch_size": 16,
        "optimizer": "rmsprop",
        "learning_rate": 0.0007,
    }

    normalise_advantages: bool = setting(
        False, "Learning", "advantages in units of their spread over a rollout"
    )

    @property
    def feeding(self) -> InStep:
        """How batches are fed."""
        return InStep()
