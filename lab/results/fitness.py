"""The fitness of a trial, of two kinds: pure functions of the curves of its sessions.

Version 1 measures returns in units of the level: 0 is random play, 1 is solved. Version 4 takes the
return above random play as it is.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lab.results.curves import POINTS, Curve, frames_at, window_starts

MASTERED = 0.95  # mean return, in units of the level, from which it counts as solved
NOISE = 0.05  # a fall by no more is no fall
OUTLIER = 3.5  # modified z-score beyond which a session is an outlier


class Level(NamedTuple):
    """What returns on a level mean."""

    random_return: float  # measured
    solved_return: float | None = None
    solved_frames: float | None = None

    @property
    def scale(self) -> float | None:
        """From random play to a solved level; None where that is no way up, or not known."""
        if self.solved_return is None or self.solved_return <= self.random_return:
            return None
        return self.solved_return - self.random_return

    @property
    def has_standard(self) -> bool:
        """Whether version 1 can be computed."""
        return self.scale is not None and self.solved_frames is not None


def session_v1(curve: Curve, level: Level) -> dict[str, float]:
    """Strength, speed and stability of one session.

    ``m`` is the mean return of 100 episodes in units of the level, at least 0, at each report.
    Strength is its maximum. Speed is the level's usual number of frames, divided by those before
    the first window with ``m`` of 0.95 or more, or by those of the very first window if they are
    more: what was solved almost from the start could be known no earlier. It is 0 if there is no
    such window. Stability is the share of reports, from the first window near the top on, at which
    ``m`` falls by 0.05 at most; 1 if that window is the last.
    """
    assert level.scale is not None and level.solved_frames is not None
    mastery = np.maximum(0.0, (curve.returns - level.random_return) / level.scale)
    solved = np.flatnonzero(mastery >= MASTERED)
    speed = 0.0
    if len(solved):
        first = np.minimum(curve.episodes[solved[0]], curve.window)
        before = window_starts(curve)[solved[0]], frames_at(curve, first)
        speed = level.solved_frames / max(before)
    top = max(NOISE, min(mastery.max(), 1.0) - NOISE)
    near = np.flatnonzero(mastery >= top)
    falls = np.diff(mastery[near[0] :]) if len(near) else np.array([])
    stability = float(np.mean(falls >= -NOISE)) if len(falls) else float(len(near) > 0)
    return {"strength": float(mastery.max()), "speed": float(speed), "stability": stability}


def consistency_v1(sessions: Sequence[dict[str, float]]) -> float:
    """The share of sessions that are no outliers, by their distance from the median session."""
    points = np.array([list(one.values()) for one in sessions])
    distances = np.linalg.norm(points - np.median(points, axis=0), axis=1)
    spread = np.median(distances)
    if spread == 0:
        return float(np.mean(distances == 0))
    return float(np.mean(0.6745 * distances / spread <= OUTLIER))


def trial_v1(sessions: Sequence[dict[str, float]]) -> dict[str, float]:
    """The four parts of version 1 over all sessions, and the fitness: their length, 1 for ones."""
    parts = {name: float(np.mean([one[name] for one in sessions])) for name in sessions[0]}
    parts["consistency"] = consistency_v1(sessions)
    vector = np.array(list(parts.values()))
    fitness = float(np.linalg.norm(vector) / np.linalg.norm(np.ones_like(vector)))
    return {"fitness": fitness, **parts}


def session_v4(curve: Curve, level: Level) -> dict[str, float | None]:
    """Strength, efficiency by frames and by updates, and stability of one session.

    ``S`` is the return above random play, at evenly spaced frames: its mean is the strength,
    ``Σ(S/t) / ΣS`` the efficiency, ``1 - |Σ min(ΔS, 0) / ΣS|`` the stability. The last
    three have no meaning for a session that is no better than random.
    """
    if curve.is_empty:
        return dict.fromkeys(("strength", "frame_efficiency", "update_efficiency", "stability"))
    frames = np.linspace(curve.frames[-1] / POINTS, curve.frames[-1], POINTS)
    above = np.interp(frames, curve.frames, curve.returns) - level.random_return
    updates = np.interp(frames, np.append(0, curve.frames), np.append(0, curve.updates))
    return v4_of(above, frames, updates)


def v4_of(above: np.ndarray, frames: np.ndarray, updates: np.ndarray) -> dict[str, float | None]:
    """The same of returns above random play, and the frames and updates at which they were had."""
    total = float(above.sum())
    if total <= 0:
        return {
            "strength": float(above.mean()),
            "frame_efficiency": None,
            "update_efficiency": None,
            "stability": None,
        }
    falls = np.minimum(np.diff(above), 0.0).sum()
    return {
        "strength": float(above.mean()),
        "frame_efficiency": float((above / frames).sum() / total),
        "update_efficiency": float((above / np.maximum(updates, 1.0)).sum() / total),
        "stability": float(1.0 - abs(falls / total)),
    }


def consistency_v4(above: np.ndarray) -> float | None:
    """``1 - 2 Σ sd / Σ mean`` over sessions [N, T]; None without a mean above random play."""
    total = float(above.mean(0).sum())
    return None if total <= 0 else float(1.0 - 2.0 * above.std(0).sum() / total)


def trial_v4(
    sessions: Sequence[dict[str, float | None]], curves: Sequence[Curve], level: Level
) -> dict[str, float | None]:
    """The parts of version 4, as means over sessions, and their consistency."""
    parts = {name: _mean([one[name] for one in sessions]) for name in sessions[0]}
    parts["consistency"] = None
    if not any(one.is_empty for one in curves):
        last = min(one.frames[-1] for one in curves)
        grid = np.linspace(last / POINTS, last, POINTS)
        above = np.array([np.interp(grid, one.frames, one.returns) for one in curves])
        parts["consistency"] = consistency_v4(above - level.random_return)
    return parts


def session(curve: Curve, level: Level) -> dict[str, Any]:
    """All figures of a session."""
    known = not curve.is_empty
    return {
        "best_return": float(curve.returns.max()) if known else None,
        "final_return": float(curve.returns[-1]) if known else None,
        "frames": float(curve.frames[-1]) if known else None,
        "seconds": float(curve.seconds[-1]) if known else None,
        "v1": session_v1(curve, level) if known and level.has_standard else None,
        "v4": session_v4(curve, level),
    }


def trial(curves: Sequence[Curve], level: Level, objective: str) -> dict[str, Any]:
    """All figures of a trial; ``objective`` is the one that a search maximises."""
    sessions = [session(curve, level) for curve in curves]
    plain = ("best_return", "final_return", "frames", "seconds")
    means = {name: _mean([one[name] for one in sessions]) for name in plain}
    each = [one["v1"] for one in sessions]
    v1 = trial_v1(each) if all(each) else None
    v4 = trial_v4([one["v4"] for one in sessions], curves, level)
    figures = means | {"fitness": v1["fitness"] if v1 else None, "strength": v4["strength"]}
    return {"objective": figures[objective], **means, "v1": v1, "v4": v4, "sessions": sessions}


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean; None if one of them is not known."""
    known = [float(value) for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None
