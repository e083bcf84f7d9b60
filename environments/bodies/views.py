"""What one agent sees of a game in which it plays several bodies."""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from environments.atari_games import FRAME_STACK
from environments.python.plain import gymnasium_spec
from environments.spaces import with_plain_observations
from environments.view import View
from user_error import UserError

MARK, MIRROR, NONE = "mark", "mirror", "none"
BRIGHTEST = 255


class BodyView:
    """Turns what bodies observe into rows; as in games for one, and such that bodies differ."""

    def __init__(self, env: Any, level_name: str, view: View, atari: bool) -> None:
        """`env` has the parallel API of PettingZoo; a UserError unless one agent can play it."""
        bodies = tuple(env.possible_agents)
        self._check_alike(env, bodies, level_name)
        alone = _Alone(env, bodies[0])
        self.action_space = alone.action_space
        plain = with_plain_observations(alone, level_name, view)
        self._change: Callable[[Any], np.ndarray] = (
            np.asarray if plain is alone else plain.observation  # type: ignore[attr-defined]
        )
        spec = gymnasium_spec(plain, level_name, view)
        if atari:
            spec = dataclasses.replace(
                spec,
                frame_stack=view.frame_stack or FRAME_STACK,
                frames_per_step=view.frame_skip * view.num_action_repeats,
            )
        self._kind = (MARK if atari else NONE) if view.tell_bodies == "auto" else view.tell_bodies
        if self._kind == MIRROR and not spec.image:
            raise UserError(
                f"--tell_bodies={MIRROR} is for pictures, but {level_name} observes "
                f"{env.observation_space(bodies[0])}; expected {MARK} or {NONE}."
            )
        self._marks = _marks(len(bodies), spec.image)
        seen = spec.observation_space
        self.spec = dataclasses.replace(
            spec,
            bodies=bodies,
            observation_space=_marked(seen, len(bodies)) if self._kind == MARK else seen,
        )
        frames = self.spec.frames_per_step
        self.pictures_per_second = (env.metadata or {}).get("render_fps", 30) / frames
        self._last: tuple[Any, np.ndarray] | None = None

    def shown(self, seen: Any, body: int) -> np.ndarray:
        """The row of a body that observes this."""
        # All bodies of an Atari game see the same screen.
        if self._last is None or self._last[0] is not seen:
            self._last = seen, self._change(seen)
        row = self._last[1]
        if self._kind == MIRROR:
            return row[:, ::-1] if body % 2 else row
        if self._kind == NONE:
            return row
        mark = self._marks[body]
        if self.spec.image:
            mark = np.broadcast_to(mark, [*row.shape[:2], 1])
        return np.concatenate([row, mark.astype(row.dtype)], axis=-1)

    @staticmethod
    def _check_alike(env: Any, bodies: tuple[str, ...], level_name: str) -> None:
        for what, space in (("see", env.observation_space), ("do", env.action_space)):
            first = space(bodies[0])
            for other in bodies[1:]:
                if (unlike := space(other)) != first:
                    raise UserError(
                        f"--level_name: one agent plays all bodies of {level_name}, but they "
                        f"{what} different things: {bodies[0]} {first}, {other} {unlike}. "
                        "A wrapper of --wrappers can make them alike."
                    )


class _Alone(gymnasium.Env):
    """The spaces of one body, for what reads those of an environment."""

    def __init__(self, env: Any, body: str) -> None:
        self.observation_space = env.observation_space(body)
        self.action_space = env.action_space(body)


def _marks(count: int, image: bool) -> np.ndarray:
    """A brightness for each body, or a one among zeros."""
    return np.linspace(0, BRIGHTEST, count)[:, None] if image else np.eye(count)


def _marked(space: gymnasium.spaces.Box, count: int) -> gymnasium.spaces.Box:
    if len(space.shape) == 3:
        shape = (*space.shape[:2], space.shape[2] + 1)
        return gymnasium.spaces.Box(0, BRIGHTEST, shape, space.dtype.type)
    low = np.append(space.low, np.zeros(count, np.float32))
    high = np.append(space.high, np.ones(count, np.float32))
    return gymnasium.spaces.Box(low, high, dtype=np.float32)
