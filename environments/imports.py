"""Imports what a flag names as package.module:name."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from checkout import import_from_here
from user_error import UserError, closest


@functools.cache
def named(path: str, flag: str, returns: str) -> Callable[..., Any]:
    """The function or class of that name; a UserError begins with the flag and the name."""
    told = f"{flag}: {path}"
    module_name, _, attribute = path.partition(":")
    import_from_here()
    if not module_name or module_name.startswith("."):  # relative to nothing
        raise _no_module(told, module_name)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise _no_module(told, error.name or module_name) from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise UserError(
                f"{told}: {module_name} has no {name!r}. "
                f"{closest(name, [one for one in vars(found) if not one.startswith('_')])}"
            )
        found = getattr(found, name)
    if not callable(found):
        raise UserError(
            f"{told} is a {type(found).__name__}, expected a function that returns {returns}."
        )
    return found


def _no_module(told: str, name: str) -> UserError:
    return UserError(
        f"{told}: there is no module {name!r}; expected package.module:name, importable from here."
    )


def wrapped(env: Any, name: str, level_name: str, returns: str) -> Any:
    """The environment in one of `--wrappers`."""
    if ":" not in name:
        raise UserError(f"--wrappers: {name}: expected package.module:name.")
    wrapper = named(name, "--wrappers", returns)
    try:
        return wrapper(env)
    except Exception as error:
        raise UserError(f"--wrappers: {name} cannot wrap {level_name}: {reason(error)}.") from error


def reason(error: Exception, expected: bool = False) -> str:
    """An error in one line, for the middle of a sentence; those that are expected have no name."""
    kind = "" if expected else f"{type(error).__name__}: "
    return (kind + " ".join(str(error).split())).rstrip(".: ")
