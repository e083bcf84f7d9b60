"""What a spec in SLM Lab's layout plays, and for how long."""

import json
from collections.abc import Mapping
from typing import Any

import gymnasium

from environments import names
from trainer.acting.settings import LevelSettings
from user_error import UserError

# Where a spec names no number of steps for an episode, and the level has none either.
STEPS_OF_AN_EPISODE = 1000


def frames_of(given: Mapping[str, Any]) -> int:
    """The frames of a session; there, steps of the agent are called frames."""
    if given.get("env.max_frame"):
        return int(given["env.max_frame"]) * _frames_of_a_step(given)
    frames = _longest(given) * _frames_of_a_step(given)
    if not frames and _frames_of_a_step(given) > 1:
        frames = LevelSettings().max_episode_frames
    known = gymnasium.registry.get(level_of(given))
    frames = frames or (known and known.max_episode_steps) or STEPS_OF_AN_EPISODE
    return int(given.get("env.max_episode") or 1) * int(frames)


def _longest(given: Mapping[str, Any]) -> int:
    return int(given.get("env.max_timestep") or given.get("env.max_t") or 0)


def limit_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that end episodes after so many steps; none where a level has no such limit."""
    steps, level = _longest(given), _found(given)
    if steps and isinstance(level, names.AtariLevel):
        return {"max_episode_frames": steps * _frames_of_a_step(given)}
    if steps and isinstance(level, names.GymnasiumLevel):
        return {"env_kwargs": json.dumps({"max_episode_steps": steps})}
    return {}


def _frames_of_a_step(given: Mapping[str, Any]) -> int:
    return LevelSettings().frame_skip if isinstance(_found(given), names.AtariLevel) else 1


def _found(given: Mapping[str, Any]) -> names.Level | None:
    """What kind of level it is; None if it is unknown, which is refused later."""
    try:
        return names.find(level_of(given))
    except UserError:
        return None


def level_of(given: Mapping[str, Any]) -> str:
    """The level that is played, by its name here."""
    return _level(str(given.get("env.name", "")))


def _level(name: str) -> str:
    """The level; of ids that Gymnasium no longer has, the newest version."""
    from environments.unity.builds import BUILDS

    if name in BUILDS:
        return f"unity:{name}"
    return name if name in gymnasium.registry else (names.newest_version(name) or name)
