"""The settings of IMPALA."""

import dataclasses
from typing import ClassVar, Self

from algorithms.feeding import FirstInFirstOut
from algorithms.figures import OF_POLICY_AND_BASELINE, Figure
from algorithms.own_settings.entropy import EntropySettings
from algorithms.own_settings.rewards import RewardSettings
from algorithms.settings import Kind
from flags import setting

SHARE_OF_VECTORS = 0.75
CLIP_OF_NUMBERS = 0.2
ENTROPY, ENTROPY_OF_VECTORS = 0.01, 0.005
CORRECTIONS = ("vtrace", "none")


@dataclasses.dataclass(frozen=True)
class ImpalaSettings(EntropySettings, RewardSettings):
    """IMPALA's losses, its figures, and how its batches are fed."""

    implementation: ClassVar[str] = "algorithms.impala:Impala"
    figures: ClassVar[tuple[Figure, ...]] = (
        *OF_POLICY_AND_BASELINE,
        Figure("baseline_spread", "baseline spread", "learning"),
        Figure("importance_weight", "importance weight", "", in_line=False),
    )
    fixed: ClassVar[tuple[str, ...]] = ("popart", "normalise_advantages")
    of_actors: ClassVar[tuple[str, ...]] = ("hold_actions_after", "correction")

    entropy_cost: float | None = setting(
        None,
        "Learning",
        "weight of the entropy bonus; default: 0 where actions are numbers, 0.005 where "
        "observations are, otherwise 0.01",
        least=0,
    )
    baseline_cost: float = setting(0.5, "Learning", "weight of the baseline's loss", least=0)
    correction: str = setting(
        "vtrace",
        "Learning",
        "vtrace: weight actions by how likely the newest policy is to choose them; none: use "
        "unrolls as they are, to measure the effect of V-trace; --clip_ratio means the same with "
        "both",
        choices=CORRECTIONS,
    )
    vtrace_lambda: float = setting(
        0.95, "Learning", "V-trace's lambda: below 1, targets look less far ahead", least=0, most=1
    )
    vtrace_rho: float = setting(
        1.0,
        "Learning",
        "V-trace's rho-bar: upper limit of importance weights; it decides which policy is learned",
        above=0,
    )
    vtrace_c: float = setting(
        1.0,
        "Learning",
        "V-trace's c-bar: their upper limit in traces; it decides how fast values are learned",
        above=0,
    )
    replay_share: float | None = setting(
        None,
        "Learning",
        "fraction of a batch that is drawn from recent unrolls instead of new ones; default: 0.75 "
        "for levels that are observed as numbers, otherwise 0",
        least=0,
        most=0.95,
    )
    replay_capacity: int = setting(
        512, "Learning", "recent unrolls kept for --replay_share", least=1, most=10**7
    )
    popart: bool = setting(
        True,
        "Learning",
        "learn the baseline in units of its targets' spread, separately for each level, so that "
        "costs mean the same for rewards of any size",
    )
    normalise_advantages: bool | None = setting(
        None,
        "Learning",
        "advantages in units of their usual size; default: where actions are numbers",
    )
    clip_ratio: float | None = setting(
        None,
        "Learning",
        "largest change of an action's probability that pays, as a share, since the action was "
        "chosen, as in PPO; 0: no limit, V-trace's own policy gradient; default: 0.2 where actions "
        "are numbers, otherwise 0",
        least=0,
    )

    hold_actions_after: int = setting(
        1_000,
        "Learning",
        "where an action is one choice: an environment that has had no reward for so many agent "
        "steps holds random actions, each for a while, for as many steps and on until there is "
        "one, which finds what single random actions do not; tests never do; 0: never, as with "
        "--correction=none",
        least=0,
        most=10**9,
    )

    def completed(self, kind: Kind) -> Self:
        """Clips the rewards of Atari only: elsewhere PopArt adapts to their size.

        Networks of vectors are so small that four updates for each new batch cost little, and a
        policy that stays as random as one of Atari would not land anything. Where actions are
        numbers, a bonus has no end: their spread could grow for ever. And four updates with the
        same unrolls would collapse it, if nothing kept the policy near the one that played.
        """
        share, entropy = self.replay_share, self.entropy_cost
        normalise, clip = self.normalise_advantages, self.clip_ratio
        usual_entropy = ENTROPY_OF_VECTORS if kind.vectors else ENTROPY
        if kind.continuous:
            usual_entropy = 0.0
        return dataclasses.replace(
            super().completed(kind),
            replay_share=(SHARE_OF_VECTORS if kind.vectors else 0.0) if share is None else share,
            entropy_cost=usual_entropy if entropy is None else entropy,
            normalise_advantages=kind.continuous if normalise is None else normalise,
            clip_ratio=(CLIP_OF_NUMBERS if kind.continuous else 0.0) if clip is None else clip,
        )

    @property
    def feeding(self) -> FirstInFirstOut:
        """How batches are fed."""
        return FirstInFirstOut(self.replay_share or 0.0, self.replay_capacity)
