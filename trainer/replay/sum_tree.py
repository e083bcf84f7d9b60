"""A sum tree: finds the leaf at a place in the sum of all leaves, without walking along them."""

import itertools
from typing import Any

import numpy as np

# Children of a node. In NumPy a level costs calls rather than arithmetic, so few wide levels are
# quicker than many narrow ones: a million leaves have four.
FAN_OUT = 32


class SumTree:
    """``size`` values of 0 or more, 0 at first, and their sum.

    Every method takes a batch of indices. A parent is the sum of its children as they are, never
    a running difference, so errors of rounding do not add up.
    """

    def __init__(self, size: int):
        # [nodes, FAN_OUT] each: the leaves first, the root's children last.
        self._levels = [np.zeros(shape) for shape in _shapes(size)]

    @staticmethod
    def bytes_needed(size: int) -> int:
        """The memory of a tree with so many leaves."""
        return sum(nodes * FAN_OUT * np.dtype(np.float64).itemsize for nodes, _ in _shapes(size))

    @property
    def total(self) -> float:
        """The sum of all values."""
        return float(self._levels[-1].sum())

    def values(self, indices: Any) -> np.ndarray:
        """The values of these leaves."""
        return self._levels[0].reshape(-1)[indices]

    def set(self, indices: Any, values: Any) -> None:
        """Gives leaves new values; where an index is there twice, the last value counts."""
        nodes = np.asarray(indices, np.int64)
        self._levels[0].reshape(-1)[nodes] = values
        for children, parents in itertools.pairwise(self._levels):
            nodes = _without_repeats(nodes // FAN_OUT)
            parents.reshape(-1)[nodes] = children[nodes].sum(axis=1)

    def find(self, masses: Any) -> np.ndarray:
        """The leaf in whose part of [0, total) each mass lies; needs a total above 0.

        It is never a leaf of value 0, even if rounding carries a mass beyond the last one.
        """
        left = np.array(masses, np.float64)
        nodes = np.zeros(left.shape, np.int64)
        for level in reversed(self._levels):
            children = level[nodes]
            ends = np.zeros([len(nodes), FAN_OUT + 1])
            np.cumsum(children, axis=1, out=ends[:, 1:])
            last = FAN_OUT - 1 - np.argmax(children[:, ::-1] > 0.0, axis=1)
            # A child of value 0 ends where it begins, so no mass lies in it.
            chosen = np.minimum(np.count_nonzero(ends[:, 1:] <= left[:, None], axis=1), last)
            left -= ends[np.arange(len(nodes)), chosen]
            nodes = nodes * FAN_OUT + chosen
        return nodes


def _shapes(size: int) -> list[tuple[int, int]]:
    nodes = -(-size // FAN_OUT)
    shapes = [(nodes, FAN_OUT)]
    while nodes > 1:
        nodes = -(-nodes // FAN_OUT)
        shapes.append((nodes, FAN_OUT))
    return shapes


def _without_repeats(nodes: np.ndarray) -> np.ndarray:
    """Without what equals its neighbour: most leaves are set in runs, and sorting takes longer."""
    return nodes[np.flatnonzero(np.diff(nodes, prepend=-1))]
