"""Makes one environment of a level that is written in Python, ready for an agent."""

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from checkout import import_from_here
from environments import imports
from environments.names import (
    BrowserLevel,
    DummyLevel,
    ExtraLevel,
    GymnasiumLevel,
    OwnLevel,
    PythonLevel,
    newest_version,
)
from environments.python.dummy import Dummy
from environments.python.mujoco_pictures import without_opengl
from environments.python.plain import plain
from environments.view import View, refuse
from user_error import UserError


def make_one(
    level: PythonLevel, level_name: str, view: View, render: bool = False
) -> gymnasium.Env:
    """The environment in its wrappers, and with what `view` asks for."""
    return plain(make_undressed(level, level_name, view, render), level_name, view)


def make_undressed(
    level: PythonLevel, level_name: str, view: View, render: bool = False
) -> gymnasium.Env:
    """The environment in its wrappers, with observations and actions of its own."""
    make = _MAKERS[type(level)]
    env = make(level, level_name, view, render)
    for name in view.wrapper_names:
        env = imports.wrapped(env, name, level_name, "a gymnasium.Env")
        _checked(env, f"--wrappers: {name}")
    return env


def _page(level: Any, level_name: str, view: View, render: bool) -> gymnasium.Env:
    # Late: few have a browser.
    from environments.browser import level as browser
    from environments.browser import page
    from environments.realtime.actions import action_set

    refuse(view, ("env_kwargs",), f"is not for web pages, as {level_name} is.")
    found = page.find(level.page)
    if view.action_set:
        chosen = action_set(view.action_set, (found.width, found.height))
        found = dataclasses.replace(found, actions=chosen)
    return browser.BrowserLevel(found, "rgb_array" if render else None)


def _extra(level: Any, level_name: str, view: View, render: bool) -> gymnasium.Env:
    from environments.extras.levels import make_extra

    return make_extra(level, level_name, view, render)


def _dummy(level: Any, level_name: str, view: View, render: bool) -> gymnasium.Env:
    refuse(view, ("env_kwargs",), f"is not for dummies, as {level_name} is.")
    return Dummy(level, "rgb_array" if render else None)


def _registered(level: Any, level_name: str, view: View, render: bool) -> gymnasium.Env:
    import_from_here()
    options = view.kwargs | ({"render_mode": "rgb_array"} if render else {})
    try:
        with warnings.catch_warnings(), without_opengl(level.id):
            # A legacy id is used on purpose.
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            return gymnasium.make(level.id, disable_env_checker=True, **options)
    except Exception as error:
        expected = isinstance(error, (gymnasium.error.Error, ImportError))
        if ":" in level.id and not expected and not view.env_kwargs:
            raise  # the user's own code: show the traceback
        given = f" with --env_kwargs={view.env_kwargs}" if view.env_kwargs else ""
        successor = newest_version(level.id)
        remedy = f" Its newest version is {successor}." if successor else ""
        raise UserError(
            f"--level_name: Gymnasium cannot make {level_name} here{given}: "
            f"{imports.reason(error, expected)}.{remedy}"
        ) from error


def _own(level: Any, level_name: str, view: View, render: bool) -> gymnasium.Env:
    factory = imports.named(level_name, "--level_name", "a gymnasium.Env")
    options, parameters = view.kwargs, _parameters(factory)
    if render and "render_mode" in parameters:
        options["render_mode"] = "rgb_array"
    _check_call(factory, options, level_name, view)
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    env = _drawn(factory, options) if render and takes_any else factory(**options)
    return _checked(env, f"--level_name: {level_name}")


def _drawn(factory: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Calls a factory that takes any arguments, but may pass them on to what does not."""
    try:
        return factory(**{"render_mode": "rgb_array"} | options)
    except TypeError:
        return factory(**options)


def _checked(env: Any, told: str) -> gymnasium.Env:
    if not isinstance(env, gymnasium.Env):
        raise UserError(f"{told} returned a {type(env).__name__}, expected a gymnasium.Env.")
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gymnasium.Space):
            raise UserError(
                f"{told} returned an environment without {name}, which must "
                "be one of gymnasium.spaces."
            )
    return env


def _parameters(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(factory).parameters
    except ValueError:  # written in C
        return {}


def _check_call(
    factory: Callable[..., Any], options: dict[str, Any], level_name: str, view: View
) -> None:
    """Whether the factory can be called with these arguments and no others."""
    try:
        inspect.signature(factory).bind(**options)
    except ValueError:
        return
    except TypeError as error:
        given = f"with --env_kwargs={view.env_kwargs}" if view.env_kwargs else "without arguments"
        raise UserError(f"--level_name: {level_name} cannot be called {given}: {error}.") from None


_MAKERS: dict[type, Callable[..., gymnasium.Env]] = {
    BrowserLevel: _page,
    ExtraLevel: _extra,
    DummyLevel: _dummy,
    GymnasiumLevel: _registered,
    OwnLevel: _own,
}
