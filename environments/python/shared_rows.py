"""The actions and rows of a batch in memory that several processes share."""

import mmap
import os

import numpy as np

from environments.python.slices import Rows
from environments.step import EnvironmentSpec

# So that no two arrays share a line of a processor's cache.
ALIGNMENT = 64


def create(spec: EnvironmentSpec, num_envs: int) -> int:
    """A file that only exists in memory, with room for the batch; its descriptor."""
    descriptor = os.memfd_create("environments")
    os.ftruncate(descriptor, sum(map(_room, _arrays(spec, num_envs))))
    return descriptor


class SharedRows:
    """The arrays in such a file."""

    def __init__(self, descriptor: int, spec: EnvironmentSpec, num_envs: int) -> None:
        # The map stays while there are arrays of it.
        memory = mmap.mmap(descriptor, 0)
        arrays: list[np.ndarray] = []
        start = 0
        for shape, kind in (wanted := _arrays(spec, num_envs)):
            count = int(np.prod(shape))
            arrays.append(np.frombuffer(memory, kind, count, start).reshape(shape))
            start += _room((shape, kind))
        assert len(arrays) == len(wanted)
        self.actions, *rows = arrays
        self.rows = Rows(*rows)

    def write(self, rows: Rows, mine: slice) -> None:
        """Stores the rows of some environments."""
        for array, value in zip(self.rows, rows, strict=True):
            array[mine] = value


def _arrays(spec: EnvironmentSpec, num_envs: int) -> list[tuple[tuple[int, ...], type]]:
    """Shape and type of the actions, and of each field of ``Rows``."""
    seen = spec.observation_space
    return [
        ((num_envs, *(spec.action_space.shape or ())), spec.action_dtype),
        ((num_envs, *seen.shape), seen.dtype.type),
        ((num_envs,), np.float64),
        ((num_envs,), np.bool_),
        ((num_envs,), np.bool_),
        ((num_envs,), np.int64),
        ((num_envs,), np.bool_),
    ]


def _room(array: tuple[tuple[int, ...], type]) -> int:
    shape, kind = array
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return -(-size // ALIGNMENT) * ALIGNMENT
