"""``doom:NAME``: a scenario of ViZDoom, of which the agent sees the screen."""

import contextlib
import os
import shlex
from pathlib import Path
from typing import Any

import gymnasium
import vizdoom.gymnasium_wrapper  # registers its ids

from environments import held_folders
from environments.view import View
from user_error import UserError, closest

PREFIX = "impala-doom-"  # of the folders in which games leave their files
TICS_PER_ACTION = 4
_ONE_BUTTON = 1  # at once


def make(name: str, view: View, render: bool) -> gymnasium.Env:
    """The scenario of that name, such as basic, or ViZDoom's environment with that id."""
    ids = {**_scenarios(), **{one: one for one in _registered()}}
    if name not in ids:
        raise UserError(
            f"--level_name: doom:{name}: ViZDoom has no such scenario. {closest(name, ids)}"
        )
    options: dict[str, Any] = {
        "frame_skip": TICS_PER_ACTION,
        "screen_resolution": "RES_160X120",
        "screen_format": "RGB24" if view.colour else "GRAY8",
        "render_mode": "rgb_array" if render else None,
        **view.kwargs,
    }
    with contextlib.ExitStack() as undo:
        folder, lock = held_folders.make_new(PREFIX)
        undo.callback(os.close, lock)
        undo.callback(held_folders.remove, folder)
        env = gymnasium.make(
            ids[name], disable_env_checker=True, **{"vizdoom_path": _launcher(folder)} | options
        )
        return Screen(env, undo.pop_all())


class Screen(gymnasium.Wrapper):
    """Shows the screen alone; an episode's last picture is the one before its end.

    At an end, ViZDoom has no picture any more, and calls an episode that was too long terminated.
    """

    def __init__(self, env: gymnasium.Env, left: contextlib.ExitStack) -> None:
        """`left` is to be closed after the environment."""
        super().__init__(env)
        assert isinstance(env.observation_space, gymnasium.spaces.Dict)
        self.observation_space = env.observation_space["screen"]
        tics = env.unwrapped.frame_skip  # type: ignore[attr-defined]
        self.metadata = {**env.metadata, "render_fps": env.metadata["render_fps"] / tics}
        self._left = left

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        self._screen = observation["screen"]
        return self._screen, info

    def step(self, action: Any) -> Any:
        observation, reward, over, truncated, info = self.env.step(action)
        if not over:
            self._screen = observation["screen"]
        return self._screen, reward, over and not truncated, truncated, info

    def close(self) -> None:
        super().close()
        self._left.close()


def _registered() -> list[str]:
    return [one for one in gymnasium.registry if one.startswith("Vizdoom")]


def _scenarios() -> dict[str, str]:
    """The ids of the scenarios in which one button is pressed at once, by short names."""
    found = {}
    for one in _registered():
        options = gymnasium.registry[one].kwargs
        if options.get("max_buttons_pressed") == _ONE_BUTTON and "scenario_config_file" in options:
            found[Path(options["scenario_config_file"]).stem] = one
    return found


def _launcher(folder: Path) -> str:
    """A script that runs the game in a folder, where it leaves its files, and not without us.

    In a session of its own Ctrl-C does not reach it: who has started it ends it.
    """
    path, game = folder / "vizdoom", Path(vizdoom.__file__).parent / "vizdoom"
    there, command = shlex.quote(str(folder)), shlex.quote(str(game))
    start = f"exec setsid setpriv --pdeathsig KILL -- {command}"
    path.write_text(f'#!/bin/sh\ncd {there} && {start} "$@"\n')
    os.chmod(path, 0o700)
    return str(path)
