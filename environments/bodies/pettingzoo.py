"""Makes one game of a `pettingzoo:` level."""

import importlib
import os
import pkgutil
from types import ModuleType
from typing import Any

from ale_py import roms

from checkout import import_from_here, setup_command
from environments import imports
from environments.bodies.frames import AtariFrames, Repeats
from environments.names import EXPECTED_BODIES, BodiesLevel
from environments.rules import AtariRules
from environments.view import View
from user_error import UserError, closest

# What requirements/pettingzoo.txt installs, by the names of imports.
EXTRA = {"pettingzoo", "mpe2", "multi_agent_ale_py", "pygame", "scipy"}
MUST_HAVE = ("possible_agents", "observation_space", "action_space", "reset", "step", "close")


def make_game(
    level: BodiesLevel, level_name: str, view: View, rules: AtariRules, render: bool = False
) -> Any:
    """The game with PettingZoo's parallel API, in its wrappers and with repeated actions."""
    if view.action_masks:
        raise UserError(f"--action_masks is not for levels of several bodies, as {level_name} is.")
    module = _module(level.module, level_name)
    if not hasattr(module, "parallel_env"):
        raise UserError(
            f"--level_name: {level_name} has no parallel_env. Games that are played in turns are "
            "not supported."
        )
    options: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    if level.is_atari:
        options |= _atari_options(view, rules)
    try:
        env = module.parallel_env(**options | view.kwargs)
    except ImportError as error:
        raise _missing(error, level_name) from None
    except Exception as error:
        given = f" with --env_kwargs={view.env_kwargs}" if view.env_kwargs else ""
        raise UserError(
            f"--level_name: {level_name} cannot be made{given}: {imports.reason(error)}."
        ) from error
    _check(env, f"--level_name: parallel_env of {level_name}")
    repeats = view.num_action_repeats
    if level.is_atari:
        env = AtariFrames(
            env, repeats * view.frame_skip, view.colour, rules.noop_max, rules.sticky_actions or 0.0
        )
        repeats = 1
    for name in view.wrapper_names:
        env = imports.wrapped(env, name, level_name, "a ParallelEnv")
        _check(env, f"--wrappers: {name}")
    return Repeats(env, repeats) if repeats > 1 else env


def _atari_options(view: View, rules: AtariRules) -> dict[str, Any]:
    cartridge = roms.get_rom_path("pong")
    assert cartridge
    return {
        "obs_type": "ram",
        "full_action_space": view.full_action_set,
        "max_cycles": rules.max_episode_frames or 2**31 - 1,
        "auto_rom_install_path": os.path.dirname(cartridge),
    }


def _module(name: str, level_name: str) -> ModuleType:
    """The module of that name in PettingZoo, or else anywhere."""
    import_from_here()
    for path in (f"pettingzoo.{name}", name):
        try:
            return importlib.import_module(path)
        except ImportError as error:
            if not (error.name and f"{path}.".startswith(f"{error.name}.")):
                raise _missing(error, level_name) from None
    for package in ("pettingzoo", name.partition(".")[0]):
        try:
            importlib.import_module(package)
        except ImportError as error:
            if package in EXTRA:
                raise _missing(error, level_name) from None
    games = _games_beside(name)
    raise UserError(
        f"--level_name: {level_name}: there is no module {name!r}, in PettingZoo or elsewhere"
        + (f". {closest(name, games)}" if games else f"; {EXPECTED_BODIES}.")
    )


def _missing(error: ImportError, level_name: str) -> UserError:
    if (error.name or "").partition(".")[0] in EXTRA:
        return UserError(
            f"--level_name: {level_name} needs {error.name}, which is not installed here: run "
            f"{setup_command('pettingzoo')}, or give another level."
        )
    return UserError(f"--level_name: {level_name} cannot be imported: {imports.reason(error)}.")


def _games_beside(name: str) -> list[str]:
    """The modules in the package that a name is said to be in."""
    package = name.rpartition(".")[0]
    for path in (f"pettingzoo.{package}", package):
        try:
            found = importlib.import_module(path).__path__
        except (ImportError, AttributeError, ValueError):
            continue
        return [f"{package}.{one.name}" for one in pkgutil.iter_modules(found) if "_v" in one.name]
    return []


def _check(env: Any, told: str) -> None:
    """A UserError unless it is a game, of a level or a wrapper of which `told` says the name."""
    lacking = [one for one in MUST_HAVE if not hasattr(env, one)]
    if lacking:
        raise UserError(
            f"{told} returned a {type(env).__name__} without {lacking[0]}; expected PettingZoo's "
            "parallel API."
        )
