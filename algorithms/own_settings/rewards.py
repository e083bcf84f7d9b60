"""How rewards are learned from: settings that all algorithms share."""

import dataclasses
from typing import Self

from algorithms.settings import AlgorithmSettings, Kind
from flags import setting

REWARD_CLIPPINGS = ("auto", "abs_one", "soft_asymmetric", "none")
CLIPPED = {
    "abs_one": "clipped to [-1, 1]",
    "soft_asymmetric": "squashed",
    "none": "not clipped",
}


@dataclasses.dataclass(frozen=True)
class RewardSettings(AlgorithmSettings):
    """Discount and clipping."""

    discounting: float = setting(0.99, "Learning", "discount of future rewards", least=0, most=1)
    reward_clipping: str = setting(
        "auto",
        "Learning",
        "auto: abs_one for Atari, none elsewhere; abs_one: to [-1, 1]; soft_asymmetric: smooth, "
        "negative rewards count less; none",
        choices=REWARD_CLIPPINGS,
    )

    def completed(self, kind: Kind) -> Self:
        """Atari rewards are clipped; elsewhere their size matters."""
        if self.reward_clipping != "auto":
            return self
        return dataclasses.replace(self, reward_clipping="abs_one" if kind.atari else "none")

    @property
    def about(self) -> dict[str, str]:
        """How rewards are learned from."""
        return {"rewards": CLIPPED[self.reward_clipping]}
