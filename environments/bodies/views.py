"""What one agent sees of a game in which it plays several bodies."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from environments.atari_games import FRAME_STACK
from environments.kinds.rows import narrowed, widened
from environments.kinds.specs import FITTING, distinct, fit_together, number_of, of_kinds
from environments.python.plain import gymnasium_spec
from environments.spaces import agent_actions, with_plain_observations
from environments.step import BodyKind, EnvironmentSpec
from environments.view import View
from user_error import UserError, in_short

MARK, MIRROR, NONE = "mark", "mirror", "none"
BRIGHTEST = 255


def told_by(tell_bodies: str, atari: bool) -> str:
    """How an agent can tell bodies apart: `tell_bodies`, where auto depends on the game."""
    return (MARK if atari else NONE) if tell_bodies == "auto" else tell_bodies


class BodyView:
    """Turns what bodies observe into rows; as in games for one, and such that bodies differ."""

    def __init__(self, env: Any, level_name: str, view: View, atari: bool) -> None:
        """`env` has the parallel API of PettingZoo; a UserError unless one agent can play it."""
        bodies = tuple(env.possible_agents)
        alone = [_Alone(env, body) for body in bodies]
        plain = [with_plain_observations(one, level_name, view) for one in alone]
        self._changes: list[Callable[[Any], np.ndarray]] = [
            np.asarray if one is own else one.observation  # type: ignore[attr-defined]
            for one, own in zip(plain, alone, strict=True)
        ]
        self._to_games = [agent_actions(one.action_space, level_name)[1] for one in alone]
        specs = [gymnasium_spec(one, level_name, view) for one in plain]
        spec = dataclasses.replace(specs[0], bodies=bodies)
        if atari:
            spec = dataclasses.replace(
                spec,
                frame_stack=view.frame_stack or FRAME_STACK,
                frames_per_step=view.frame_skip * view.num_action_repeats,
            )
        self._kind = told_by(view.tell_bodies, atari)
        if self._kind == MIRROR and not spec.image:
            raise UserError(
                f"--tell_bodies={MIRROR} is for pictures, but {level_name} observes "
                f"{in_short(env.observation_space(bodies[0]))}; expected {MARK} or {NONE}."
            )
        self._marks = _marks(len(bodies), spec.image)
        self.spec = self._with_spaces(spec, [self._own(one) for one in specs])
        self._own_actions = [kind.action_space for kind in self.spec.rows]
        frames = self.spec.frames_per_step
        metadata = getattr(env, "metadata", None) or {}
        self.pictures_per_second = (metadata.get("render_fps") or 30) / frames
        self._last: tuple[Any, np.ndarray] | None = None

    def _own(self, spec: EnvironmentSpec) -> BodyKind:
        """What a body sees, with its mark, and does."""
        seen = spec.observation_space
        if self._kind == MARK:
            seen = _marked(seen, len(self._marks))
        return BodyKind(seen, spec.action_space)

    @staticmethod
    def _with_spaces(spec: EnvironmentSpec, own: list[BodyKind]) -> EnvironmentSpec:
        if not fit_together(own):
            shown = ", ".join(
                f"{body} {in_short(one.observation_space)}"
                for body, one in zip(spec.bodies, own, strict=True)
            )
            raise UserError(
                f"--level_name: one agent plays all bodies of {spec.level_name}, but they see "
                f"different things: {shown}. {FITTING}; a wrapper of --wrappers can change them."
            )
        kinds = distinct(own)
        if len(kinds) == 1:
            return dataclasses.replace(spec, observation_space=own[0].observation_space)
        return of_kinds(spec, kinds, [number_of(one, kinds) or 0 for one in own])

    def blank(self) -> np.ndarray:
        """The rows of a game's bodies before any has seen something."""
        space = self.spec.observation_space
        rows = np.zeros([self.spec.num_bodies, *space.shape], space.dtype)
        if not self.spec.kinds:
            return rows
        own = rows if self.spec.image else rows[:, :-1]
        return widened(own, np.array(self.spec.row_kinds), space)

    def forget(self) -> None:
        """Takes nothing of a step before as seen: a game may draw into the same array again."""
        self._last = None

    def shown(self, seen: Any, body: int) -> np.ndarray:
        """The row of a body that observes this."""
        row = self._plain(seen, body)
        if self._kind == MIRROR:
            row = row[:, ::-1] if body % 2 else row
        elif self._kind == MARK:
            mark = self._marks[body]
            if self.spec.image:
                mark = np.broadcast_to(mark, [*row.shape[:2], 1])
            row = np.concatenate([row, mark.astype(row.dtype)], axis=-1)
        if not self.spec.kinds:
            return row
        return widened(row, self.spec.row_kinds[body], self.spec.observation_space)

    def _plain(self, seen: Any, body: int) -> np.ndarray:
        # All bodies of an Atari game see the same screen.
        if not self.spec.image:
            return self._changes[body](seen)
        if self._last is None or self._last[0] is not seen:
            self._last = seen, self._changes[body](seen)
        return self._last[1]

    def taken(self, actions: np.ndarray, bodies: Sequence[int]) -> list[list[Any]]:
        """What these bodies of each game do, by the agent's actions for all of their rows."""
        space = self.spec.action_space
        of_bodies = [
            self._to_games[body](
                narrowed(actions[column :: len(bodies)], space, self._own_actions[body])
            )
            for column, body in enumerate(bodies)
        ]
        return [list(of_game) for of_game in zip(*of_bodies, strict=True)]


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
