"""Levels named `vnc:…`: what agents see of them and do in them, and where they come from."""

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import gymnasium
import numpy as np

from environments.names import AtariLevel, RealTimeLevel, find
from environments.realtime import game_file, keeping, level_keys, measures, password
from environments.realtime.actions import Action, action_set
from environments.realtime.environment import RealTimeEnvironment
from environments.realtime.keeping import Elsewhere, Source, StartedHere
from environments.rules import AtariRules
from environments.step import EnvironmentSpec
from environments.view import FRAMES_OF_MOTION, View, refuse
from user_error import UserError


class Remotes(NamedTuple):
    """Where worlds come from; without addresses they are started here."""

    addresses: Sequence[str] = ()  # host:port+port
    password_file: str = ""
    lag_ms: float = 0.0  # to add to the way there and back
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)
    elsewhere: bool = False  # whether there are addresses at all, if only for other actors


class Game(NamedTuple):
    """What is known of a world before there is one."""

    actions: tuple[Action, ...]
    fps: float
    names_keys: bool = True  # and does not only number its actions


def check_installed(*modules: str) -> None:
    """Refuses to go on without what few users need."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"worlds in real time need {' and '.join(missing)}: install what is missing, as "
            "bin/setup --extra=vnc does."
        )


def spec(level: RealTimeLevel, level_name: str, view: View) -> EnvironmentSpec:
    """The specification: pictures, grey unless `--colour`, and actions to count."""
    refuse(view, ("action_masks",), f"is not for worlds in real time, as {level_name} is.")
    if _game_of_atari(level):
        reason = "does nothing over VNC, where an action lasts --num_action_repeats frames."
        refuse(view, ("frame_skip",), reason, frame_skip=1)
    shape = (view.height, view.width, 3 if view.colour else 1)
    world = game(level, view)
    return EnvironmentSpec(
        level_name=level_name,
        observation_space=gymnasium.spaces.Box(0, 255, shape, np.uint8),
        action_space=gymnasium.spaces.Discrete(len(world.actions)),
        frame_stack=view.frame_stack or FRAMES_OF_MOTION,
        frames_per_step=view.num_action_repeats,
        image=True,
        keys=tuple(one.keys for one in world.actions) if world.names_keys else (),
        goes_on=True,
        measures=measures.MEASURES,
    )


def make(
    level: RealTimeLevel,
    level_name: str,
    view: View,
    rules: AtariRules,
    seeds: Sequence[int],
    remotes: Remotes,
    level_index: int,
) -> RealTimeEnvironment:
    """A batch of environments, one for each seed."""
    check_installed("websockets")
    atari = _game_of_atari(level)
    if atari:
        unfit = ("sticky_actions", "noop_max", "max_episode_frames")
        reason = f"is not for worlds in real time, as {level_name} is."
        refuse(rules, unfit, reason, sticky_actions=atari.sticky_actions)
    world = game(level, view)
    return RealTimeEnvironment(
        spec(level, level_name, view),
        world.actions,
        view,
        world.fps,
        _sources(level, view, world.fps, seeds, remotes),
        remotes.lag_ms,
        level_index,
        remotes.say,
        maximum=atari is not None,
    )


def _game_of_atari(level: RealTimeLevel) -> AtariLevel | None:
    """The Atari game that a remote serves, if it is one."""
    served = None if level.is_program else find(level.served)
    return served if isinstance(served, AtariLevel) else None


def _sources(
    level: RealTimeLevel, view: View, fps: float, seeds: Sequence[int], remotes: Remotes
) -> list[Source]:
    if remotes.addresses or remotes.elsewhere:
        return _elsewhere(level, view, fps, remotes, len(seeds))
    check_installed("pygame")
    kind = "game" if level.is_program else "level_name"
    flags = [f"--{kind}={level.served}", f"--fps={view.fps}"]
    flags += [f"--env_kwargs={view.env_kwargs}"] if view.env_kwargs else []
    flags += [f"--wrappers={view.wrappers}"] if view.wrappers else []
    flags += ["--full_action_set"] if view.full_action_set else []
    return [StartedHere([*flags, f"--seed={seed}"]) for seed in seeds]


def _elsewhere(
    level: RealTimeLevel, view: View, fps: float, remotes: Remotes, count: int
) -> list[Source]:
    addresses = [keeping.parse_address(one, "--remotes") for one in remotes.addresses]
    for text, one in zip(remotes.addresses, addresses, strict=True):
        if addresses.count(one) > 1:
            raise UserError(
                f"--remotes: {text} is named twice; expected one for each environment, as two "
                "would press keys in the same game."
            )
    if len(addresses) < count:
        raise UserError(
            f"--remotes: {len(addresses)} remotes are left for an actor with {count} environments, "
            "each of which needs one. Name more of them, count --task from 0, or give --num_actors "
            "and --envs_per_actor."
        )
    if not remotes.password_file:
        raise UserError(
            "--remotes needs --remote_password_file, the file of their password, which "
            ".venv/bin/python -m environments.remote serve prints."
        )
    secret = password.read(remotes.password_file, "--remote_password_file")
    return [
        Elsewhere(address, secret, level.served, fps, view.made_with)
        for address in addresses[:count]
    ]


def game(level: RealTimeLevel, view: View) -> Game:
    """The actions and the frame rate of a world."""
    if level.is_program:
        told = game_file.read(level.served, view, "--level_name=vnc:")
        view.crop_of(told.height, told.width)
        actions = told.actions
        if view.action_set:
            actions = action_set(view.action_set, (told.width, told.height))
        return Game(actions, view.fps or told.fps)
    with contextlib.closing(level_keys.made(level.served, view)) as env:
        actions = level_keys.keys_of(env)
        names_keys = bool(view.action_set) or level_keys.names_keys(env)
        fps = level_keys.frames_per_second(env, level.served, view.fps)
        if view.action_set or view.crop:
            env.reset(seed=0)
            height, width = level_keys.picture(env, level.served).shape[:2]
            view.crop_of(height, width)
        if view.action_set:
            actions = action_set(view.action_set, (width, height))
            if any(one.click or one.drag for one in actions) and not level_keys.takes_events(env):
                raise UserError(
                    f"--action_set={view.action_set}: {level.served} takes keys only, and no "
                    "clicks; those are for browser:… and programs."
                )
        if any(one.drag for one in actions):
            own = f"actions of {level.served}"
            given = f"--action_set={view.action_set}" if view.action_set else own
            raise UserError(
                f"{given}: {level.served} takes keys and clicks on a desktop, and no drags; those "
                "are for browser:… without vnc: and programs."
            )
    return Game(actions, fps, names_keys)
