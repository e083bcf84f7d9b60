"""Figures of a run: collected with each update, reported every ``--report_every_s`` seconds."""

import collections
import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.trajectory import MEASURED, Episodes, Unroll
from trainer.machine.cores import busy_fraction, cores_time

RECENT_EPISODES = 100
NEWEST_LAGS = 1000  # of which a report gives the median


class Meter:
    """Counts since the start of the run, and means since the last report."""

    def __init__(
        self,
        levels: list[str],
        frames_per_step: int,
        counters: dict[str, Any],
        figures: Sequence[str] = (),
        measures: Sequence[str] = (),
        bodies: Sequence[str] = (),
    ):
        """``counters`` are a checkpoint's.

        ``figures`` are the names of each update's figures, ``measures`` those of the levels'.
        ``bodies`` are those of a game in which there are several.
        """
        self.figures = figures
        self.measures = sorted(measures)
        self.environment_frames = int(counters.get("environment_frames", 0))
        self.agent_steps = int(counters.get("agent_steps", 0))
        self.episodes = int(counters.get("episodes", 0))
        self.skipped_updates = int(counters.get("skipped_updates", 0))
        self.skipped_in_a_row = 0  # batches
        self._wall_time_before = float(counters.get("wall_time", 0.0))
        self._places = _places(levels, bodies)
        self.frames_per_step = frames_per_step
        self._returns = _recent(self._places, counters.get("recent_returns", []))
        self._lengths = _recent(self._places, counters.get("recent_lengths", []))
        self._started = time.monotonic()
        self._whole = _Window(self, {})
        self._window = _Window(self, {})

    @property
    def wall_time(self) -> float:
        """Seconds of training, including those before a resume."""
        return self._wall_time_before + time.monotonic() - self._started

    @property
    def mean_episode_return(self) -> float | None:
        """Mean raw return of the last episodes: the mean over levels and bodies of their means."""
        return _mean(self._returns)

    @property
    def recent_episodes(self) -> int:
        """The number of episodes in a mean return, for the level or body with the fewest."""
        return min(len(returns) for returns in self._returns)

    def unplayed(self) -> list[str]:
        """Levels and bodies of which no episode has ended, although many of another have."""
        counts = [len(returns) for returns in self._returns]
        if max(counts) < RECENT_EPISODES:
            return []
        return [place for place, count in zip(self._places, counts, strict=True) if not count]

    def counters(self) -> dict[str, Any]:
        """What a checkpoint stores and ``__init__`` takes."""
        return {
            "environment_frames": self.environment_frames,
            "agent_steps": self.agent_steps,
            "episodes": self.episodes,
            "skipped_updates": self.skipped_updates,
            "wall_time": self.wall_time,
            "recent_returns": [list(returns) for returns in self._returns],
            "recent_lengths": [list(lengths) for lengths in self._lengths],
        }

    def add_episodes(self, rows: np.ndarray) -> None:
        """Counts ended episodes and measures, in the format of ``ended_episodes``."""
        for place, raw_return, length in rows:
            if place < 0:
                self._window.add_measure(-1 - int(place), raw_return, int(length))
                continue
            self._returns[int(place)].append(float(raw_return))
            self._lengths[int(place)].append(int(length))
            self.episodes += 1

    def add_update(
        self,
        figures: Mapping[str, Any],
        skipped: bool,
        lag: float,
        fresh_steps: int,
        begins: bool = True,
    ) -> None:
        """Counts an update with ``fresh_steps`` new agent steps.

        ``begins`` is whether it is the first one of its batch: all updates of a batch that is not
        finite may be skipped, and count once.
        """
        self.agent_steps += fresh_steps
        self.environment_frames += fresh_steps * self.frames_per_step
        self._window.add(figures, lag)
        self.skipped_updates += skipped
        self.skipped_in_a_row = self.skipped_in_a_row + begins if skipped else 0

    def add_played(self, steps: int) -> None:
        """Counts agent steps that were played before this one began to count."""
        self.agent_steps += steps
        self.environment_frames += steps * self.frames_per_step
        self._whole, self._window = _Window(self, {}), _Window(self, {})

    def whole_run(self, waits: dict[str, float]) -> dict[str, float | None]:
        """Rates and fractions of time since this process began to train."""
        return self._whole.rates(waits)

    def report(self, waits: dict[str, float]) -> dict[str, Any]:
        """All figures since the last report; ``waits`` are seconds waited since the run began."""
        figures = self._window.rates(waits) | self._window.means()
        self._window = _Window(self, waits)
        return {
            "environment_frames": self.environment_frames,
            "agent_steps": self.agent_steps,
            "episodes": self.episodes,
            "mean_episode_return": self.mean_episode_return,
            "mean_episode_length": _mean(self._lengths),
            **self._by_place(),
            **figures,
            "recent_episodes": self.recent_episodes,
            "skipped_updates": self.skipped_updates,
            "wall_time": self.wall_time,
        }

    def _by_place(self) -> dict[str, float | None]:
        if len(self._places) == 1:
            return {}
        return {
            f"mean_episode_return/{place}": float(np.mean(returns)) if returns else None
            for place, returns in zip(self._places, self._returns, strict=True)
        }


def _recent(places: Sequence[str], kept: Sequence[Any]) -> list[collections.deque[float]]:
    """The newest numbers of each place; ``kept`` are those of a checkpoint."""
    if kept and not isinstance(kept[0], list):
        kept = [kept]  # earlier versions had the lengths of all in one list
    found = [collections.deque[float](maxlen=RECENT_EPISODES) for _ in places]
    for one, numbers in zip(found, kept, strict=False):
        one.extend(numbers)
    return found


def _mean(recent: Sequence[collections.deque[float]]) -> float | None:
    """The mean over levels and bodies of their means; None before there is one."""
    means = [float(np.mean(numbers)) for numbers in recent if numbers]
    return float(np.mean(means)) if means else None


def _places(levels: Sequence[str], bodies: Sequence[str]) -> list[str]:
    """The names of what has returns of its own: levels, or each body on each level."""
    if not bodies:
        return list(levels)
    return [body if len(levels) == 1 else f"{level}:{body}" for level in levels for body in bodies]


class _Window:
    """Sums between two reports."""

    def __init__(self, meter: Meter, waits: dict[str, float]):
        self._started = time.monotonic()
        self._cores = cores_time()
        self._frames = meter.environment_frames
        self._steps = meter.agent_steps
        self._meter = meter
        self._waits = waits
        # Sums rather than lists of values: reports may be days apart.
        self._sums = np.zeros(len(meter.figures))
        self._counts = np.zeros(len(meter.figures))
        self._measured = np.zeros([len(meter.measures), 2])  # sums and counts
        # The newest: a learner that is not the first one never reports.
        self._lags = collections.deque[float](maxlen=NEWEST_LAGS)
        self._updates = 0

    def add_measure(self, index: int, total: float, count: int) -> None:
        if index < len(self._measured):
            self._measured[index] += (total, count)

    def add(self, figures: Mapping[str, Any], lag: float) -> None:
        values = np.array([float(figures[name]) for name in self._meter.figures])
        finite = np.isfinite(values)
        self._sums += np.where(finite, values, 0.0)
        self._counts += finite
        if math.isfinite(lag):
            self._lags.append(lag)
        self._updates += 1

    def rates(self, waits: dict[str, float]) -> dict[str, float | None]:
        """Rates per second, and the fractions of time spent waiting or with busy cores."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        return {
            "frames_per_second": (self._meter.environment_frames - self._frames) / seconds,
            "steps_per_second": (self._meter.agent_steps - self._steps) / seconds,
            **{
                name: min(1.0, (total - self._waits.get(name, 0.0)) / seconds)
                for name, total in waits.items()
            },
            "cores_busy_share": busy_fraction(self._cores),
        }

    def means(self) -> dict[str, float | None]:
        """The mean of each figure over the window's updates, and the median of the newest lags."""
        figures: dict[str, float | None] = {
            "updates_in_report": self._updates,
            "policy_lag": float(np.median(self._lags)) if self._lags else None,
        }
        for name, total, count in zip(self._meter.figures, self._sums, self._counts, strict=True):
            figures[name] = float(total / count) if count else None
        for name, (total, count) in zip(self._meter.measures, self._measured, strict=True):
            figures[name] = float(total / count) if count else None
        return figures


class EndedEpisodes:
    """Collects ended episodes until they are taken; safe to use from several threads."""

    def __init__(self, bodies: int) -> None:
        """``bodies`` is the number of those in a game."""
        self._bodies = bodies
        self._rows: list[np.ndarray] = []
        self._lock = threading.Lock()

    def add(self, block: Unroll) -> None:
        """Adds the episodes that ended in a block of unrolls."""
        rows = ended_episodes(block, self._bodies)
        with self._lock:
            self._rows.append(rows)

    def take(self) -> np.ndarray:
        """Removes and returns all of them, in the format of ``ended_episodes``."""
        with self._lock:
            rows, self._rows = self._rows, []
        return np.concatenate([np.zeros([0, 3]), *rows])


def ended_episodes(block: Unroll, bodies: int = 1) -> np.ndarray:
    """[N, 3]: place, raw return and length of the episodes that ended in an actor's block.

    The place is the level's index, or that of the level and the body among all of these.
    Further rows are for what the level has measured: -1 for the first measure by name, -2 for the
    next, and so on; the sum of its known values; how many these are.
    """
    ended = Episodes(*(array[1:] for array in block.episodes))
    there = np.nonzero(ended.length)
    places = block.level * bodies + np.arange(len(block.level)) % bodies
    columns = (places[there[1]], ended.raw_return[there], ended.length[there])
    return np.concatenate([np.stack(columns, axis=-1).astype(np.float64), _measured(block)])


def _measured(block: Unroll) -> np.ndarray:
    rows = []
    names = sorted(name for name in block.recorded if name.startswith(MEASURED))
    for index, name in enumerate(names):
        values = np.asarray(block.recorded[name][1:], np.float64)
        known = values[~np.isnan(values)]
        rows.append([-1.0 - index, known.sum(), len(known)])
    return np.array(rows, np.float64).reshape(-1, 3)
