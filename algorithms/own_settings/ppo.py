"""The settings of PPO."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from algorithms.feeding import InStep
from algorithms.figures import Figure
from algorithms.own_settings.on_policy import OnPolicySettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class PPOSettings(OnPolicySettings):
    """Several epochs over each rollout, in minibatches, with a limited change of the policy."""

    implementation: ClassVar[str] = "algorithms.ppo:PPO"
    defaults: ClassVar[Mapping[str, Any]] = {
        "unroll_length": 128,
        "batch_size": 8,
        "learning_rate": 0.00025,
    }
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("policy_gradient_loss", "policy gradient", "losses", in_line=False),
        Figure("baseline_loss", "baseline", "losses", in_line=False),
        Figure("entropy", "entropy", "learning"),
        Figure("policy_change", "policy change", "learning"),
        Figure("clipped_share", "clipped", "learning", in_line=False),
    )

    normalise_advantages: bool = setting(
        True, "Learning", "advantages in units of their spread over a rollout"
    )
    epochs: int = setting(
        4, "Learning", "times that a rollout is learned from", least=1, most=10_000
    )
    minibatches: int = setting(4, "Learning", "updates of an epoch", least=1, most=65536)
    piece_length: int = setting(
        16,
        "Learning",
        "steps that stay together when a rollout is shuffled, at most; agents with an LSTM keep "
        "whole unrolls",
        least=1,
        most=10_000,
    )
    clip_ratio: float = setting(
        0.1, "Learning", "largest change of an action's probability that pays, as a share", above=0
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

    @property
    def feeding(self) -> InStep:
        """How batches are fed."""
        return InStep(self.epochs, self.minibatches, piece_length=self.piece_length)
