"""How long an agent takes from a picture to the key that answers it, and the parts of that."""

from collections.abc import Callable, Sequence

import numpy as np

from environments.realtime.link import Link, Snapshot
from environments.realtime.seat import Row
from environments.step import Measure

MEASURES = (
    Measure("reaction_time", "reaction time (ms)"),
    Measure("thinking_time", "thinking"),
    Measure("action_lag", "action lag"),
    Measure("observation_lag", "observation lag"),
    Measure("updates_per_second", "updates/s"),
    Measure("rewards_per_second", "rewards/s"),
    Measure("late_ticks", "late ticks"),
    Measure("away", "away"),
)
NEWEST = 0.1  # the weight of the newest action lag in the mean that reaction_time adds


class Measured:
    """The figures of each environment, tick by tick; times in milliseconds, nan where unknown."""

    def __init__(self, num_envs: int) -> None:
        self._figures = {one.name: np.full(num_envs, np.nan, np.float32) for one in MEASURES}
        self._action_lag = np.full(num_envs, np.nan)  # a running mean
        self._observed = np.full(num_envs, np.nan)  # the age of the picture that was acted on
        self._shown_at = np.nan
        self._thinking = np.nan

    def acted(self, now: float) -> None:
        """Takes the time at which actions go out."""
        self._thinking = now - self._shown_at

    def seen(
        self,
        now: float,
        rows: Sequence[Row],
        links: Sequence[Link | None],
        age: Callable[[Snapshot, Link, float], float],
        period_s: float,
    ) -> None:
        """Takes the rows of a tick."""
        passed_s = (now - self._shown_at) / 1000
        for index, (row, link) in enumerate(zip(rows, links, strict=True)):
            fresh = self._of(index, row, link, passed_s)
            for name, array in self._figures.items():
                array[index] = fresh.get(name, np.nan)
            known = row.playing and row.snapshot and link
            self._observed[index] = age(row.snapshot, link, now) if known else np.nan  # type: ignore[arg-type]
        self._figures["late_ticks"][:] = passed_s > 1.5 * period_s
        self._shown_at = now

    def _of(self, index: int, row: Row, link: Link | None, passed_s: float) -> dict[str, float]:
        if row.snapshot is None or link is None:
            return {"away": 1.0}
        lags = row.snapshot.action_lags
        if not link.described.get("tells_keys", True):
            lags = [link.way_ms]
        for lag in lags:
            before = self._action_lag[index]
            self._action_lag[index] = lag if np.isnan(before) else before + NEWEST * (lag - before)
        lag, observed = self._action_lag[index], self._observed[index]
        return {
            "reaction_time": observed + self._thinking + lag,
            "thinking_time": self._thinking,
            "action_lag": float(np.mean(lags)) if lags else np.nan,
            "observation_lag": observed,
            "updates_per_second": row.snapshot.updates / passed_s,
            "rewards_per_second": row.rewards / passed_s,
            "away": 0.0,
        }

    def figures(self) -> dict[str, np.ndarray]:
        """The newest figures, [N] each."""
        return self._figures
