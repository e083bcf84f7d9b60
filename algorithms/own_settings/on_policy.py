"""The settings that algorithms share whose actors play in step with the learner."""

import dataclasses
from typing import Self

from algorithms.own_settings.impala import CLIPPED, REWARD_CLIPPINGS
from algorithms.settings import AlgorithmSettings
from flags import setting


@dataclasses.dataclass(frozen=True)
class OnPolicySettings(AlgorithmSettings):
    """How returns and advantages are computed, and how much the parts of the loss count."""

    discounting: float = setting(0.99, "Learning", "discount of future rewards", least=0, most=1)
    gae_lambda: float = setting(
        0.95,
        "Learning",
        "generalised advantage estimation: 1 uses n-step returns, as long as an unroll; less "
        "trusts the baseline more",
        least=0,
        most=1,
    )
    normalise_advantages: bool = setting(
        True, "Learning", "advantages in units of their spread over a rollout"
    )
    reward_clipping: str = setting(
        "auto",
        "Learning",
        "auto: abs_one for Atari, none elsewhere; abs_one: to [-1, 1]; soft_asymmetric: smooth, "
        "negative rewards count less; none",
        choices=REWARD_CLIPPINGS,
    )
    entropy_cost: float = setting(0.01, "Learning", "weight of the entropy bonus", least=0)
    baseline_cost: float = setting(0.5, "Learning", "weight of the baseline's loss", least=0)

    def completed(self, atari: bool, vectors: bool) -> Self:
        """Atari rewards are clipped; elsewhere their size matters."""
        if self.reward_clipping != "auto":
            return self
        return dataclasses.replace(self, reward_clipping="abs_one" if atari else "none")

    @property
    def about(self) -> dict[str, str]:
        """How rewards are learned from."""
        return {"rewards": CLIPPED[self.reward_clipping]}
