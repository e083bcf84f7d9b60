"""``procgen:NAME``: a game of Procgen, whose levels are generated anew for each episode."""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from environments.view import View
from user_error import UserError, closest

PIXELS, PICTURES_PER_SECOND = 64, 15
# Steps after which a game ends an episode, as it says in its state.
LONGEST = {"bigfish": 6000, "bossfight": 4000, "leaper": 500, "maze": 500, "plunder": 4000}
LONGEST_OF_OTHERS = 1000
_START_AGAIN = np.array([-1], np.int32)  # in place of an action


def make(name: str, view: View, render: bool) -> gymnasium.Env:
    """The game of that name, such as coinrun."""
    library = _library()
    if name not in library.ENV_NAMES:
        raise UserError(
            f"--level_name: procgen:{name}: Procgen has no such game. "
            f"{closest(name, library.ENV_NAMES)}"
        )
    return Procgen(library, name, view.kwargs, "rgb_array" if render else None)


class Procgen(gymnasium.Env):
    """One game; made anew with each seed, because that is an argument.

    Procgen shows the next episode's first picture at an episode's end, so the last picture of an
    episode is the one before its end.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": PICTURES_PER_SECOND}

    def __init__(self, library: Any, name: str, options: dict[str, Any], render_mode: str | None):
        self.render_mode = render_mode
        self.observation_space: Any = spaces.Box(0, 255, (PIXELS, PIXELS, 3), np.uint8)
        self._make = lambda seed: library.ProcgenGym3Env(
            num=1,
            num_threads=0,
            env_name=name,
            rand_seed=seed,
            render_mode=render_mode,
            **options,
        )
        self._env = self._make(0)
        self._longest = LONGEST.get(name, LONGEST_OF_OTHERS)
        self.action_space = spaces.Discrete(len(self._env.get_combos()))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self._env.close()
            self._env = self._make(seed)
        _, seen, first = self._env.observe()
        if not first[0]:
            self._env.act(_START_AGAIN)
            _, seen, _ = self._env.observe()
        self._picture, self._length = seen["rgb"][0], 0
        return self._picture, {}

    def step(self, action: Any) -> Any:
        self._env.act(np.array([action]))
        reward, seen, first = self._env.observe()
        over = bool(first[0])
        self._length += 1
        if not over:
            self._picture = seen["rgb"][0]
        truncated = over and self._length == self._longest
        return self._picture, float(reward[0]), over and not truncated, truncated, {}

    def render(self) -> Any:
        return self._env.get_info()[0]["rgb"]

    def close(self) -> None:
        self._env.close()


@contextmanager
def _alone(*packages: str) -> Iterator[None]:
    """Lets modules of these packages be imported without what the packages themselves import.

    That is OpenGL, and the Gym of before Gymnasium, neither of which is needed.
    """
    before = set(sys.modules)
    for name in packages:
        found = importlib.util.find_spec(name)
        if found is None:
            raise ModuleNotFoundError(name=name)
        bare = ModuleType(name)
        bare.__path__ = list(found.submodule_search_locations or ())
        bare.ToBaselinesVecEnv = object  # type: ignore[attr-defined]  # a base class of one there
        sys.modules[name] = bare
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in packages:
                del sys.modules[name]


@functools.cache
def _library() -> Any:
    with _alone("gym3", "procgen"):
        return importlib.import_module("procgen.env")
