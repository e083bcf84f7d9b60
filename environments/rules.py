"""How Atari's games are played, as flags say it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AtariRules:
    """What flags say of Atari's games besides what is seen of them."""

    sticky_actions: float | None = None  # how likely an action is repeated; None: as the id says
    episodic_life: bool = True  # a lost life ends an episode
    noop_max: int = 30  # frames without action, at most, with which a game begins
    max_episode_frames: int = 108_000  # 0: no limit
    # In training, so that an agent does not wait forever where it would have to act; 0: no limit.
    max_rewardless_steps: int = 1_000
