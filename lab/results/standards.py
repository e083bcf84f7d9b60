"""By what returns and frames levels count as solved, and named sets of levels."""

from collections.abc import Sequence

import gymnasium

from environments.names import AtariLevel, find
from lab.results.fitness import Level
from lab.specs.meta import Standard
from trainer.trained.human_scores import SCORES

# What Tianshou's SAC reaches in a million steps: for each of ten seeds the best evaluation, then
# their mean. Version 3 of these levels; the table SAC in examples/mujoco/README.md of
# github.com/thu-ml/tianshou. Gymnasium names a return for three of the five only.
MUJOCO_FRAMES = 1_000_000
MUJOCO_RETURNS = {
    "HalfCheetah-v5": 12138.8,
    "Hopper-v5": 3542.2,
    "Walker2d-v5": 5007.0,
    "Ant-v5": 5850.2,
    "Humanoid-v5": 5488.5,
}
# Frames in which a level is usually solved; the unit of speed. meta.standard overrides them.
USUAL_FRAMES = {
    "CartPole-v0": 20_000,
    "CartPole-v1": 50_000,
    "Acrobot-v1": 100_000,
    "MountainCar-v0": 500_000,
    "LunarLander-v3": 300_000,
    "Catch-v0": 50_000,
} | dict.fromkeys(MUJOCO_RETURNS, MUJOCO_FRAMES)
ATARI_FRAMES = 40_000_000
# Where Gymnasium names no return at which a level is solved, or this one is better known.
SOLVED_RETURNS = {"Catch-v0": 0.9} | MUJOCO_RETURNS

_ATARI26 = (
    "Alien Amidar Assault Asterix BankHeist BattleZone Boxing Breakout ChopperCommand CrazyClimber "
    "DemonAttack Freeway Frostbite Gopher Hero Jamesbond Kangaroo Krull KungFuMaster MsPacman Pong "
    "PrivateEye Qbert RoadRunner Seaquest UpNDown"
)
_ATARI8 = "BeamRider Breakout Enduro MsPacman Pong Qbert Seaquest SpaceInvaders"
SETS: dict[str, tuple[str, ...]] = {
    "classic": ("CartPole-v1", "Acrobot-v1", "LunarLander-v3", "Catch-v0"),
    "atari8": tuple(f"{game}NoFrameskip-v4" for game in _ATARI8.split()),
    "atari26": tuple(f"{game}NoFrameskip-v4" for game in _ATARI26.split()),
    "mujoco5": tuple(MUJOCO_RETURNS),
}


def level_of(levels: Sequence[str], random_return: float, own: Standard) -> Level:
    """What returns mean on these levels; of several, means. ``own`` are the spec's figures."""
    returns = [solved_return(name) for name in levels]
    frames = [solved_frames(name) for name in levels]
    known_returns = [one for one in returns if one is not None]
    known_frames = [one for one in frames if one is not None]
    return Level(
        random_return,
        own.solved_return
        if own.solved_return is not None
        else (sum(known_returns) / len(levels) if len(known_returns) == len(levels) else None),
        own.solved_frames or (sum(known_frames) if len(known_frames) == len(levels) else None),
    )


def solved_return(level: str) -> float | None:
    """The mean return at which a level is solved; of an Atari game a human's."""
    found = find(level)
    if isinstance(found, AtariLevel):
        return SCORES[found.rom][1] if found.rom in SCORES else None
    known = gymnasium.registry.get(level)
    return SOLVED_RETURNS.get(level, known.reward_threshold if known else None)


def solved_frames(level: str) -> float | None:
    """The frames in which it is usually solved, if that is known."""
    return ATARI_FRAMES if isinstance(find(level), AtariLevel) else USUAL_FRAMES.get(level)
