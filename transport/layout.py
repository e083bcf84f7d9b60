"""Nests of arrays as contiguous bytes, so that a whole block is sent as one message."""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# A cache line; aligned arrays are read fastest.
ALIGNMENT = 64


@dataclasses.dataclass(frozen=True)  # a leaf of a nest, unlike a named tuple
class ArraySpec:
    """An array's type and shape; None stands for the number of unrolls."""

    dtype: np.dtype
    shape: tuple[int | None, ...]

    def sized(self, count: int) -> tuple[int, ...]:
        """The shape with ``count`` unrolls."""
        return tuple(count if size is None else size for size in self.shape)


class Misfit(Exception):
    """Bytes or arrays do not match the layout."""


class Layout:
    """Where each array of a nest lies in the bytes."""

    most: int | None = None  # unrolls of a block that is unpacked

    def __init__(self, nest: Any):
        """``nest`` holds an ``ArraySpec`` in place of each array."""
        self._nest = nest
        self._specs: list[ArraySpec] = tf.nest.flatten(nest)

    def size(self, count: int = 1) -> int:
        """The number of bytes that ``count`` unrolls take."""
        return sum(self._padded(spec, count) for spec in self._specs)

    def pack(self, nest: Any, count: int = 1) -> np.ndarray:
        """The arrays' bytes, uint8 [size]."""
        packed = np.zeros(self.size(count), np.uint8)
        for view, array in zip(self._views(packed, count), tf.nest.flatten(nest), strict=True):
            given = np.asarray(array)
            if given.dtype != view.dtype or given.shape != view.shape:
                raise Misfit(
                    f"an array is {given.dtype}{list(given.shape)}; "
                    f"expected {view.dtype}{list(view.shape)}"
                )
            view[...] = given
        return packed

    def unpack(self, packed: np.ndarray, count: int = 1) -> Any:
        """The nest, its arrays being views of the bytes."""
        if count < 1 or packed.nbytes != self.size(count):
            raise Misfit(f"{count} unrolls in {packed.nbytes} bytes, expected {self.size(count)}")
        return tf.nest.pack_sequence_as(self._nest, self._views(packed, count))

    def describe(self) -> list[tuple[str, list[int | None]]]:
        """Types and shapes in a form that JSON can hold."""
        return [(spec.dtype.name, list(spec.shape)) for spec in self._specs]

    def digest(self) -> str:
        """A short name, different for every layout."""
        return hashlib.blake2b(repr(self.describe()).encode(), digest_size=8).hexdigest()

    def _views(self, packed: np.ndarray, count: int) -> list[np.ndarray]:
        views, start = [], 0
        for spec in self._specs:
            shape = spec.sized(count)
            stop = start + math.prod(shape) * spec.dtype.itemsize
            views.append(packed[start:stop].view(spec.dtype).reshape(shape))
            start += self._padded(spec, count)
        return views

    def _padded(self, spec: ArraySpec, count: int) -> int:
        size = math.prod(spec.sized(count)) * spec.dtype.itemsize
        return -(-size // ALIGNMENT) * ALIGNMENT


def arrays_layout(described: Sequence[tuple[str, Sequence[int | None]]]) -> Layout:
    """The layout of a list of arrays, as ``describe`` returns it."""
    # TensorFlow knows all of NumPy's types by name, and bfloat16.
    return Layout(
        [
            ArraySpec(np.dtype(tf.as_dtype(name).as_numpy_dtype), tuple(shape))
            for name, shape in described
        ]
    )
