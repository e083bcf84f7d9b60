"""Gymnasium levels as games for a keyboard: which keys stand for which action."""

import dataclasses
import math
from typing import Any

import gymnasium
import numpy as np

from environments.atari_games import NOT_PYTHON
from environments.names import AtariLevel, BodiesLevel, RealTimeLevel, UnityLevel, find
from environments.python.levels import make_undressed
from environments.python.named_keys import named_keys
from environments.realtime.actions import Action
from environments.view import View, refuse
from user_error import UserError, in_short

ATARI_FPS = 60
_OTHER_KEYS = "0123456789abcdefghijklmnopqrstuvwxyz"


def made(level_name: str, view: View) -> gymnasium.Env:
    """The level with pictures for people; an Atari game runs at its own 60 frames a second."""
    level = find(level_name)
    if isinstance(level, AtariLevel):
        refuse(view, ("env_kwargs", "wrappers"), f"{NOT_PYTHON} {level_name} is not.")
        game = level.rom.title().replace("_", "")
        return gymnasium.make(
            f"ALE/{game}-v5",
            frameskip=1,
            repeat_action_probability=level.sticky_actions,
            full_action_space=view.full_action_set,
            render_mode="rgb_array",
            obs_type="ram",  # `picture` asks for the screen, once a frame
            disable_env_checker=True,
            max_episode_steps=108_000,
        )
    if isinstance(level, RealTimeLevel):
        served = f"--{'game' if level.is_program else 'level_name'}={level.served}"
        raise UserError(f"--level_name: {level_name} is on a desktop already; give {served}.")
    if isinstance(level, BodiesLevel):
        raise UserError(f"--level_name: {level_name} is for several bodies; a desktop has one.")
    if isinstance(level, UnityLevel):
        raise UserError(f"--level_name: {level_name} has no pictures; a desktop shows some.")
    # A desktop shows what people would see; an agent's view of it may be grey.
    shown = dataclasses.replace(view, colour=True)
    env = make_undressed(level, level_name, shown, render=True)
    if not isinstance(env.action_space, gymnasium.spaces.Discrete):
        raise UserError(
            f"--level_name: {level_name} takes actions {in_short(env.action_space)}; over VNC "
            "there are keys only, expected Discrete actions."
        )
    return env


def frames_per_second(env: gymnasium.Env, level_name: str, asked: float) -> float:
    """The frames that are asked for, or the speed for human players."""
    if not asked:
        atari = isinstance(find(level_name), AtariLevel)
        return ATARI_FPS if atari else float(env.metadata.get("render_fps") or 30)
    most = getattr(env.unwrapped, "most_fps", math.inf)
    if asked > most:
        raise UserError(
            f"--fps={asked:g}: a step of {level_name} takes {1000 / most:g} ms of real time; "
            f"expected {most:g} at most, or 0."
        )
    return asked


def takes_events(env: gymnasium.Env) -> bool:
    """Whether its steps take keys and clicks as they come, as those of web pages do."""
    return hasattr(env.unwrapped, "desktop_actions")


def names_keys(env: gymnasium.Env) -> bool:
    """Whether it says which keys its actions are, and does not only number them."""
    return takes_events(env) or bool(named_keys(env))


def keys_of(env: gymnasium.Env) -> tuple[Action, ...]:
    """The keys to hold for each action of an environment, in the order of its actions.

    They are those that it names. Of one that names none, no key is action 0, and the key 3 is
    action 3.
    """
    if takes_events(env):
        plain: Any = env.unwrapped
        return plain.desktop_actions
    if named := named_keys(env):
        return named
    count = int(env.action_space.n)  # type: ignore[attr-defined]
    if count > len(_OTHER_KEYS):
        raise UserError(f"--level_name: {count} actions are more than there are keys for.")
    return (Action(), *(Action(held=frozenset(key)) for key in _OTHER_KEYS[1:count]))


def picture(env: gymnasium.Env, level_name: str) -> np.ndarray:
    """What the level draws for people, uint8 [height, width, 3]."""
    drawn = env.render()
    if not (isinstance(drawn, np.ndarray) and drawn.ndim == 3 and drawn.shape[2] == 3):
        raise UserError(
            f"--level_name: {level_name} draws no pictures of three colours "
            "(render_mode='rgb_array'), so there is nothing to show on a desktop."
        )
    return drawn.astype(np.uint8, copy=False)


def action_for(held: frozenset[str], actions: tuple[Action, ...]) -> int:
    """The action whose keys are all held and of which there are most."""
    fitting = [(len(one.held), -index) for index, one in enumerate(actions) if one.held <= held]
    return -max(fitting, default=(0, 0))[1]
