"""Curves of sessions: what they have reported, as arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lab.results.tables import OF_ONE, RETURN
from lab.trials.sessions import Session
from trainer.reporting.wording import by_level

WINDOW = 100  # episodes in a mean return
POINTS = 200  # of a curve on a common grid
DRAWN = 500  # points of a session at most, where there are many sessions


class Curve(NamedTuple):
    """The reports of one session that have a mean return, in the order of training."""

    frames: np.ndarray
    seconds: np.ndarray
    returns: np.ndarray  # mean raw return of the last 100 episodes
    updates: np.ndarray
    episodes: np.ndarray  # that have ended so far
    window: int = WINDOW  # of all levels or bodies together, each of which has a mean of its own

    @property
    def is_empty(self) -> bool:
        """Whether no episode has ended."""
        return not len(self.frames)


class Drawn(NamedTuple):
    """What is drawn of a session where there are many of them."""

    size: int  # of its reports
    curve: Curve
    bodies: dict[str, Curve]  # of each body or level that has returns of its own


# As it was when it was drawn last: to read all reports again each time would take too long.
_drawn: WeakKeyDictionary[Session, Drawn] = WeakKeyDictionary()


def drawn_of(session: Session) -> Drawn:
    """What is drawn of a session, whose reports are read if there are others than the last time."""
    size = session.size_of_reports()
    if session not in _drawn or _drawn[session].size != size:
        rows = session.rows()
        bodies = {
            name: [row | {RETURN: row.get(f"{OF_ONE}{name}")} for row in rows]
            for name in (by_level(rows[-1]) if rows else ())
        }
        curves = {name: thinned(curve_of(own), DRAWN) for name, own in bodies.items()}
        _drawn[session] = Drawn(size, thinned(curve_of(rows), DRAWN), curves)
    return _drawn[session]


def thinned(curve: Curve, most: int) -> Curve:
    """So many of the reports at most, the last among them."""
    step = max(1, -(-len(curve.frames) // most))
    first = (len(curve.frames) - 1) % step
    *arrays, _ = Curve._fields
    return curve._replace(**{name: getattr(curve, name)[first::step].copy() for name in arrays})


def curve_of(rows: Sequence[Mapping[str, Any]]) -> Curve:
    """The curve of a session's reports; means over fewer than 100 episodes only if all are."""
    rows = [row for row in rows if row.get("mean_episode_return") is not None]
    full = [row for row in rows if (row.get("recent_episodes") or 0) >= WINDOW]
    places = len(by_level(dict(rows[-1]))) if rows else 0

    def column(name: str) -> np.ndarray:
        return np.array([row.get(name) or 0 for row in full or rows], float)

    return Curve(
        column("environment_frames"), column("wall_time"), column("mean_episode_return"),
        column("updates"), column("episodes"), WINDOW * max(1, places),
    )  # fmt: skip


def window_starts(curve: Curve) -> np.ndarray:
    """The frames at which the oldest episode of each mean return ended."""
    return frames_at(curve, np.maximum(curve.episodes - curve.window, 0))


def frames_at(curve: Curve, episodes: np.ndarray) -> np.ndarray:
    """The frames after which so many episodes had ended, between the reports."""
    places = np.concatenate([[0.0], curve.episodes])
    return np.interp(episodes, places, np.concatenate([[0.0], curve.frames]))


def spread(
    curves: Sequence[Curve], over: str = "frames"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A common grid, and there the least, the mean and the most of all curves.

    Evenly spaced frames or seconds at which all curves have a return; none without such.
    """
    axes = [getattr(one, over) for one in curves]
    start, end = max(one[0] for one in axes), min(one[-1] for one in axes)
    grid = np.linspace(start, end, POINTS if start <= end else 0)
    returns = np.array([np.interp(grid, getattr(one, over), one.returns) for one in curves])
    return grid, returns.min(0), returns.mean(0), returns.max(0)
