"""The settings of V-trace."""

import dataclasses
from typing import ClassVar

from algorithms.feeding import FirstInFirstOut
from algorithms.figures import Figure
from algorithms.settings import AlgorithmSettings
from flags import setting

REWARD_CLIPPINGS = ("abs_one", "soft_asymmetric", "none")
CORRECTIONS = ("vtrace", "none")


@dataclasses.dataclass(frozen=True)
class ImpalaSettings(AlgorithmSettings):
    """What V-trace learns with."""

    implementation: ClassVar[str] = "algorithms.impala:Impala"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("policy_gradient_loss", "policy gradient", "losses", in_line=False),
        Figure("baseline_loss", "baseline", "losses", in_line=False),
        Figure("entropy", "entropy", "learning"),
        Figure("baseline_spread", "baseline spread", "learning"),
        Figure("importance_weight", "importance weight", "", in_line=False),
    )
    fixed: ClassVar[tuple[str, ...]] = ("popart",)

    discounting: float = setting(0.99, "Learning", "discount of later reward", least=0, most=1)
    reward_clipping: str = setting(
        "abs_one",
        "Learning",
        "abs_one: to [-1, 1]; soft_asymmetric: smooth, losses weigh less; none",
        choices=REWARD_CLIPPINGS,
    )
    entropy_cost: float = setting(0.01, "Learning", "weight of the entropy bonus", least=0)
    baseline_cost: float = setting(0.5, "Learning", "weight of the baseline's loss", least=0)
    correction: str = setting(
        "vtrace",
        "Learning",
        "vtrace: weigh unrolls by how likely the newest policy is to act alike; none: take them "
        "as they are, to see what V-trace is worth",
        choices=CORRECTIONS,
    )
    vtrace_lambda: float = setting(
        0.95, "Learning", "V-trace's lambda: below 1, less of the far future", least=0, most=1
    )
    replay_share: float = setting(
        0.0,
        "Learning",
        "share of a batch that is drawn from recent unrolls instead of new ones",
        least=0,
        most=0.95,
    )
    replay_capacity: int = setting(
        512, "Learning", "recent unrolls kept for --replay_share", least=1, most=10**7
    )
    popart: bool = setting(
        True,
        "Learning",
        "learn the baseline in units of its targets' spread, for each level by itself, so that "
        "costs mean the same whatever the size of rewards",
    )

    @property
    def feeding(self) -> FirstInFirstOut:
        """How batches are fed."""
        return FirstInFirstOut(self.replay_share, self.replay_capacity)
