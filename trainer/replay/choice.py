"""How a replay store chooses windows: all alike, or by priority."""

from typing import Protocol

import numpy as np

from trainer.replay.sum_tree import SumTree

# A priority below it counts as this one: every window can be drawn.
LEAST_PRIORITY = 1e-6


class Choice(Protocol):
    """Draws from the windows that are included; windows have numbers from 0."""

    count: int  # windows that are included

    def has(self, windows: np.ndarray) -> np.ndarray:
        """Whether each is included."""

    def include(self, windows: np.ndarray) -> None:
        """Includes windows, each given once, of which none was."""

    def exclude(self, windows: np.ndarray) -> None:
        """Excludes windows, each given once, of which all were included."""

    def draw(self, random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws with replacement: windows, and the probability with which each is drawn."""

    def update(self, windows: np.ndarray, priorities: np.ndarray) -> None:
        """Gives included windows new priorities."""

    def saved(self) -> dict[str, np.ndarray]:
        """What a later process needs to go on, besides which windows are included."""

    def restore(self, windows: np.ndarray, saved: dict[str, np.ndarray]) -> None:
        """Takes over what was ``saved`` of these windows, which are included."""


class Uniform:
    """Every window alike."""

    def __init__(self, size: int):
        self.count = 0
        self._included = np.empty([size], np.int64)  # the first `count` of it, in no order
        self._place = np.full([size], -1, np.int64)  # of each window among those

    @staticmethod
    def bytes_needed(size: int) -> int:
        """The memory for so many windows."""
        return 2 * size * np.dtype(np.int64).itemsize

    def has(self, windows: np.ndarray) -> np.ndarray:
        return self._place[windows] >= 0

    def include(self, windows: np.ndarray) -> None:
        count = self.count + len(windows)
        self._included[self.count : count] = windows
        self._place[windows] = np.arange(self.count, count)
        self.count = count

    def exclude(self, windows: np.ndarray) -> None:
        # Included windows beyond the new end move to the places that become free before it.
        count = self.count - len(windows)
        free = self._place[windows]
        self._place[windows] = -1
        moved = self._included[count : self.count]
        moved = moved[self.has(moved)]
        free = free[free < count]
        self._included[free] = moved
        self._place[moved] = free
        self.count = count

    def draw(self, random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        windows = self._included[random.integers(self.count, size=count)]
        return windows, np.full([count], 1.0 / self.count)

    def update(self, windows: np.ndarray, priorities: np.ndarray) -> None:
        del windows, priorities

    def saved(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, windows: np.ndarray, saved: dict[str, np.ndarray]) -> None:
        del windows, saved


class Prioritized:
    """In proportion to priority ** exponent; a new window has the largest priority so far."""

    def __init__(self, size: int, exponent: float):
        self.count = 0
        self._size = size
        self._exponent = exponent
        self._largest = 1.0
        self._tree = SumTree(size)

    @staticmethod
    def bytes_needed(size: int) -> int:
        """The memory for so many windows."""
        return SumTree.bytes_needed(size)

    def has(self, windows: np.ndarray) -> np.ndarray:
        return self._tree.values(windows) > 0.0

    def include(self, windows: np.ndarray) -> None:
        self._tree.set(windows, self._largest**self._exponent)
        self.count += len(windows)

    def exclude(self, windows: np.ndarray) -> None:
        self._tree.set(windows, 0.0)
        self.count -= len(windows)

    def draw(self, random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        total = self._tree.total
        windows = self._tree.find(random.random(count) * total)
        return windows, self._tree.values(windows) / total

    def update(self, windows: np.ndarray, priorities: np.ndarray) -> None:
        if len(windows):
            priorities = np.maximum(priorities.astype(np.float64), LEAST_PRIORITY)
            self._largest = max(self._largest, float(priorities.max()))
            self._tree.set(windows, priorities**self._exponent)

    def saved(self) -> dict[str, np.ndarray]:
        masses = self._tree.values(np.arange(self._size))
        about = {"largest": self._largest, "exponent": self._exponent}
        return {"masses": masses, **{name: np.array(value) for name, value in about.items()}}

    def restore(self, windows: np.ndarray, saved: dict[str, np.ndarray]) -> None:
        masses = saved.get("masses", np.zeros([0]))
        # Otherwise the settings were changed: all windows count as new.
        if len(masses) == self._size and saved["exponent"] == self._exponent:
            self._largest = float(saved["largest"])
            windows = windows[masses[windows] > 0.0]
            self._tree.set(windows, masses[windows])


def importance_weights(probabilities: np.ndarray, count: int, exponent: float) -> np.ndarray:
    """Weights float32 that undo a choice by priority, the largest of them 1.

    Args:
        probabilities: with which each window was drawn.
        count: of the windows from which they were drawn.
        exponent: 1 undoes the choice entirely, 0 not at all.
    """
    weights = (count * probabilities) ** -exponent
    return (weights / weights.max()).astype(np.float32)
