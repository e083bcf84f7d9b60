"""The settings of PPO."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from algorithms.feeding import InStep
from algorithms.figures import OF_POLICY_AND_BASELINE, Figure
from algorithms.own_settings.entropy import EntropySettings
from algorithms.own_settings.on_policy import OnPolicySettings
from algorithms.settings import Kind
from flags import setting

OF_NUMBERS = {"epochs": 10, "minibatches": 16, "piece_length": 1, "clip_ratio": 0.2}
OF_PICTURES = {"epochs": 4, "minibatches": 4, "piece_length": 16, "clip_ratio": 0.1}


@dataclasses.dataclass(frozen=True)
class PPOSettings(EntropySettings, OnPolicySettings):
    """Several epochs over each rollout, in minibatches, with a limited change of the policy."""

    implementation: ClassVar[str] = "algorithms.ppo:PPO"
    defaults: ClassVar[Mapping[str, Any]] = {
        "unroll_length": 128,
        "batch_size": 8,
        "learning_rate": 0.00025,
    }
    figures: ClassVar[tuple[Figure, ...]] = (
        *OF_POLICY_AND_BASELINE,
        Figure("policy_change", "policy change", "learning"),
        Figure("clipped_share", "clipped", "learning", in_line=False),
    )

    normalise_advantages: bool = setting(
        True, "Learning", "advantages in units of their spread over a rollout"
    )
    epochs: int | None = setting(
        None,
        "Learning",
        "times that a rollout is learned from; default: 4, or 10 where observations are numbers",
        least=1,
        most=10_000,
    )
    minibatches: int | None = setting(
        None,
        "Learning",
        "updates of an epoch; default: 4, or 16 where observations are numbers",
        least=1,
        most=65536,
    )
    piece_length: int | None = setting(
        None,
        "Learning",
        "steps that stay together when a rollout is shuffled, at most; agents with an LSTM keep "
        "whole unrolls; default: 16, or 1 where observations are numbers",
        least=1,
        most=10_000,
    )
    clip_ratio: float | None = setting(
        None,
        "Learning",
        "largest change of an action's probability that pays, as a share; default: 0.1, or 0.2 "
        "where observations are numbers",
        above=0,
    )
    clip_values: float = setting(
        0.0, "Learning", "largest change of a value that pays; 0: no limit", least=0
    )
    most_policy_change: float = setting(
        0.0,
        "Learning",
        "leave out the rest of a rollout's updates once the policy has changed by this KL "
        "divergence; 0: never",
        least=0,
    )

    def completed(self, kind: Kind) -> Self:
        """With what is usual for Atari, or where updates of a small network cost little."""
        usual = OF_NUMBERS if kind.vectors else OF_PICTURES
        own = {name: getattr(self, name) for name in usual}
        chosen: dict[str, Any] = {name: given for name, given in own.items() if given is not None}
        return dataclasses.replace(super().completed(kind), **usual | chosen)

    @property
    def feeding(self) -> InStep:
        """How batches are fed."""
        return InStep(self.epochs or 1, self.minibatches or 1, piece_length=self.piece_length or 1)
