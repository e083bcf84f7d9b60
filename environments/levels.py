"""From a level's name to its specification and to a batch of its environments."""

import functools
import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from environments.atari import AtariEnvironment, atari_spec
from environments.gym import GymnasiumEnvironment, gymnasium_spec, plain
from environments.mujoco_pictures import without_opengl
from environments.names import AtariLevel, GymnasiumLevel, OwnLevel, find
from environments.step import EnvironmentSpec, VectorEnvironment
from user_error import UserError, closest


def spec(
    level_name: str,
    *,
    num_action_repeats: int = 1,
    width: int = 84,
    height: int = 84,
    full_action_set: bool = False,
) -> EnvironmentSpec:
    """The specification of the level for an agent; the options are those of `make`."""
    level = find(level_name)
    if isinstance(level, AtariLevel):
        return atari_spec(
            level_name,
            level.rom,
            num_action_repeats=num_action_repeats,
            width=width,
            height=height,
            full_action_set=full_action_set,
        )
    env = plain(
        _single(level, level_name),
        level_name,
        num_action_repeats=num_action_repeats,
        width=width,
        height=height,
    )
    try:
        return gymnasium_spec(env, level_name, num_action_repeats=num_action_repeats)
    finally:
        env.close()


def make(
    level_name: str,
    num_envs: int,
    seed: int,
    *,
    level_index: int = 0,
    num_action_repeats: int = 1,
    width: int = 84,
    height: int = 84,
    sticky_actions: float | None = None,
    full_action_set: bool = False,
    episodic_life: bool = False,
    num_threads: int = 0,
    render: bool = False,
) -> VectorEnvironment:
    """A batch of environments of one level, each with a seed of its own drawn from `seed`.

    Images are resized to `width` × `height`. `sticky_actions` (None: as the id says),
    `full_action_set`, `episodic_life` and `num_threads` (0: one a core) are for Atari
    only. `render` enables `VectorEnvironment.render`; for Atari it needs a second emulator.
    """
    level = find(level_name)
    seeds = environment_seeds(seed, num_envs)
    if isinstance(level, AtariLevel):
        return AtariEnvironment(
            atari_spec(
                level_name,
                level.rom,
                num_action_repeats=num_action_repeats,
                width=width,
                height=height,
                full_action_set=full_action_set,
            ),
            level.rom,
            seeds,
            level_index=level_index,
            sticky_actions=level.sticky_actions if sticky_actions is None else sticky_actions,
            full_action_set=full_action_set,
            episodic_life=episodic_life,
            num_threads=num_threads,
            render=render,
        )
    return GymnasiumEnvironment(
        lambda: plain(
            _single(level, level_name, render=render),
            level_name,
            num_action_repeats=num_action_repeats,
            width=width,
            height=height,
        ),
        seeds,
        level_name,
        level_index=level_index,
        num_action_repeats=num_action_repeats,
    )


def environment_seeds(seed: int, num_envs: int) -> np.ndarray:
    """Distinct seeds of 31 bits; nearby values of `seed` almost never share any."""
    start = np.random.SeedSequence(seed).generate_state(1)[0] >> 2
    return np.arange(num_envs, dtype=np.int64) + int(start)


def _single(
    level: GymnasiumLevel | OwnLevel, level_name: str, *, render: bool = False
) -> gymnasium.Env:
    if isinstance(level, OwnLevel):
        return _own(level, level_name, render)
    _search_current_folder()
    options: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    try:
        with warnings.catch_warnings(), without_opengl(level.id):
            # A legacy id is used on purpose.
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            return gymnasium.make(level.id, disable_env_checker=True, **options)
    except Exception as error:
        expected = isinstance(error, (gymnasium.error.Error, ImportError))
        if ":" in level.id and not expected:
            raise  # the user's own code: show the traceback
        kind = "" if expected else f"{type(error).__name__}: "
        reason = kind + " ".join(str(error).split()).rstrip(".")
        raise UserError(
            f"--level_name: Gymnasium cannot make {level_name} here: {reason}."
        ) from error


def _own(level: OwnLevel, level_name: str, render: bool) -> gymnasium.Env:
    factory = _own_factory(level, level_name)
    takes_mode = "render_mode" in _parameters(factory, level_name)
    env = factory(render_mode="rgb_array") if render and takes_mode else factory()
    if not isinstance(env, gymnasium.Env):
        raise UserError(
            f"--level_name: {level_name} returned a {type(env).__name__}, expected a gymnasium.Env."
        )
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gymnasium.Space):
            raise UserError(
                f"--level_name: {level_name} returned an environment without {name}, which must "
                "be one of gymnasium.spaces."
            )
    return env


def _parameters(factory: Callable[..., Any], level_name: str) -> set[str]:
    """The names of a factory's parameters, none of which may be required."""
    try:
        signature = inspect.signature(factory)
    except ValueError:  # written in C
        return set()
    try:
        signature.bind()
    except TypeError as error:
        raise UserError(
            f"--level_name: {level_name} cannot be called without arguments: {error}."
        ) from None
    return set(signature.parameters)


def _search_current_folder() -> None:
    """Makes modules in the current folder importable even if the program is elsewhere."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


@functools.cache
def _own_factory(level: OwnLevel, level_name: str) -> Callable[..., Any]:
    _search_current_folder()
    try:
        found: Any = importlib.import_module(level.module)
    except ModuleNotFoundError as error:
        raise UserError(
            f"--level_name: {level_name}: there is no module {error.name!r}; "
            "expected package.module:make, importable from here."
        ) from error
    for name in level.attribute.split("."):
        if not hasattr(found, name):
            raise UserError(
                f"--level_name: {level_name}: {level.module} has no {name!r}. "
                f"{closest(name, [one for one in vars(found) if not one.startswith('_')])}"
            )
        found = getattr(found, name)
    if not callable(found):
        raise UserError(
            f"--level_name: {level_name} is a {type(found).__name__}, "
            "expected a function that returns a gymnasium.Env."
        )
    return found
