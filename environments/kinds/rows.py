"""Rows of several kinds of bodies: what they see made wide, and what they do made narrow."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from environments.kinds.specs import count_of
from environments.step import BodyKind, EnvironmentSpec


def widened(seen: np.ndarray, number: Any, space: spaces.Box) -> np.ndarray:
    """What bodies see, [..., D] or [..., H, W, C], as rows of the `space` with room for all kinds.

    `number` is that of their kind, one for all or [...].
    """
    if len(space.shape) == 3:
        wide = np.array(seen)
        wide[..., 0, 0, 0] = number
        return wide
    wide = np.zeros([*seen.shape[:-1], *space.shape], np.float32)
    wide[..., : seen.shape[-1]] = seen
    wide[..., -1] = number
    return wide


def narrowed(actions: np.ndarray, space: gymnasium.Space, own: gymnasium.Space) -> np.ndarray:
    """Actions of the `space` with room for all kinds, [...] or [..., A], as those of bodies."""
    if not space.shape or own == space:
        return actions
    mine = actions[..., : count_of(own)]
    return (mine if own.shape else mine[..., 0]).astype(_dtype(own))


class RandomActions:
    """Draws actions at random, for each row one that its body has."""

    def __init__(self, spec: EnvironmentSpec, seed: int) -> None:
        self._spec = spec
        for kind in spec.kinds or spec.rows[:1]:
            kind.action_space.seed(seed)

    def draw(
        self, count: int, row_kinds: Sequence[int] = (), seen: np.ndarray | None = None
    ) -> np.ndarray:
        """[count, ...]; `row_kinds` are those of the rows, again and again, if not the level's.

        Of levels with masks, `seen` [count, ...] says which actions are allowed.
        """
        spec, row_kinds = self._spec, row_kinds or self._spec.row_kinds
        own = [spec.kinds[index] for index in row_kinds] or spec.rows
        rows = seen if spec.masked and seen is not None else [None] * count
        drawn = [self._drawn(own[row % len(own)], rows[row]) for row in range(count)]
        return np.array(drawn, spec.action_dtype)

    def _drawn(self, kind: BodyKind, seen: np.ndarray | None) -> Any:
        mask, own = None, kind.action_space
        if seen is not None and isinstance(own, spaces.Discrete):
            end = kind.observation_space.shape[0]
            mask = (seen[end - int(own.n) : end] > 0.5).astype(np.int8)
        action, space = own.sample(mask=mask), self._spec.action_space
        if not space.shape or not self._spec.kinds:
            return action
        flat = np.ravel(action)
        return np.pad(flat, (0, count_of(space) - len(flat)))


def _dtype(space: gymnasium.Space) -> type[np.float32] | type[np.int32]:
    return np.float32 if isinstance(space, spaces.Box) else np.int32
