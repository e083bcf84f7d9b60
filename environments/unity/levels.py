"""Levels named `unity:…`: what their agents see and do, and batches of them."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from environments.names import UnityLevel
from environments.step import EnvironmentSpec
from environments.unity import builds
from environments.unity.behaviour import Behaviour
from environments.unity.environment import UnityEnvironment
from environments.unity.process import Launch, Level, Lost, Process
from environments.view import View, refuse
from user_error import UserError


def spec(level: UnityLevel, level_name: str, view: View) -> EnvironmentSpec:
    """The specification, which only the build itself knows: it is started and ended."""
    process, told = _started(level_name, _launch(level, level_name, view, 0))
    process.close()
    if told.behaviour.pictures:
        _say(f"{level_name}: its pictures are left out, since they are constant without graphics.")
    return _spec(told, level_name, view)


def make(
    level: UnityLevel, level_name: str, view: View, seeds: Sequence[int], level_index: int
) -> UnityEnvironment:
    """As many builds as have at least one agent for each seed."""
    launch = _launch(level, level_name, view, seeds[0])
    first, told = _started(level_name, launch)
    count = -(-len(seeds) // told.columns)
    return UnityEnvironment(
        _spec(told, level_name, view),
        _actions(told.behaviour),
        [launch._replace(seed=seed, columns=told.columns) for seed in seeds[:count]],
        first,
        told.columns,
        level_index,
        _say,
    )


def _launch(level: UnityLevel, level_name: str, view: View, seed: int) -> Launch:
    unfit = ("num_action_repeats", "wrappers", "action_masks", "crop")
    refuse(view, unfit, f"is not for builds of Unity, as {level_name} is.")
    behaviour, parameters = _arguments(view.kwargs)
    program = str(builds.program(level.build, _say))
    known = builds.BUILDS.get(level.build)
    return Launch(program, seed, behaviour, parameters, known.actions if known else 0)


def _arguments(given: Mapping[str, Any]) -> tuple[str, Mapping[str, float]]:
    """The behaviour that is chosen, and the build's own parameters."""
    parameters = {name: value for name, value in given.items() if name != "behaviour"}
    for name, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(
                f"--env_kwargs: {name}={value}: parameters of builds are numbers; "
                "behaviour=NAME chooses whose agents are played."
            )
    return str(given.get("behaviour", "")), parameters


def _started(level_name: str, launch: Launch) -> tuple[Process, Level]:
    """A build, and what it is; ends it if it is not as expected."""
    try:
        process = Process(level_name, launch)
    except Lost as error:
        raise UserError(f"--level_name: {level_name} {error}.") from None
    try:
        return process, process.level()
    except BaseException as error:
        process.kill()
        if isinstance(error, Lost):
            raise UserError(
                f"--level_name: {level_name} {error}. Expected a build for Linux with ML-Agents."
            ) from None
        raise


def _spec(told: Level, level_name: str, view: View) -> EnvironmentSpec:
    return EnvironmentSpec(
        level_name=level_name,
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (told.behaviour.numbers,)),
        action_space=_actions(told.behaviour),
        frame_stack=view.frame_stack or 1,
        frames_per_step=1,
        image=False,
    )


def _actions(behaviour: Behaviour) -> gymnasium.Space:
    if behaviour.continuous:
        return gymnasium.spaces.Box(-1, 1, (behaviour.continuous,))
    if len(behaviour.branches) == 1:
        return gymnasium.spaces.Discrete(behaviour.branches[0])
    return gymnasium.spaces.MultiDiscrete(list(behaviour.branches))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
