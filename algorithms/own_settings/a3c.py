"""The settings of A3C."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from algorithms.feeding import Gradients
from algorithms.own_settings.actor_critic import ActorCriticSettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class A3CSettings(ActorCriticSettings):
    """Actors compute the gradients; ``--batch_size`` is the number of unrolls in each."""

    normalise_advantages: ClassVar[bool] = False  # no actor knows the others' advantages
    fixed: ClassVar[tuple[str, ...]] = ("shared_optimizer",)
    defaults: ClassVar[Mapping[str, Any]] = {
        "unroll_length": 20,
        "batch_size": 8,
        "num_actors": 2,
        "learning_rate": 0.0006,
    }

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
