"""Blocks as bytes and back."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from transport.layout import ArraySpec, Layout, Misfit, arrays_layout

DTYPES = [np.uint8, np.bool_, np.int32, np.float32, np.float64, tf.bfloat16.as_numpy_dtype]


class Pair(NamedTuple):
    many: tuple
    one: list


@given(
    count=st.integers(1, 5),
    kinds=st.lists(st.sampled_from(DTYPES), min_size=2, max_size=4),
    data=st.data(),
)
def test_unpacking_returns_what_was_packed(count, kinds, data):
    specs, values = [], []
    for kind in kinds:
        shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, max_side=4))
        axis = data.draw(st.integers(0, len(shape) - 1))
        specs.append(ArraySpec(np.dtype(kind), (*shape[:axis], None, *shape[axis + 1 :])))
        numbers = np.arange(np.prod(specs[-1].sized(count))).reshape(specs[-1].sized(count))
        values.append(numbers.astype(kind))
    layout = Layout(Pair(((), *specs[:-1]), specs[-1:]))
    packed = layout.pack(Pair(((), *values[:-1]), values[-1:]), count)
    assert packed.nbytes == layout.size(count)
    found = layout.unpack(packed, count)
    assert isinstance(found, Pair) and found.many[0] == () and isinstance(found.one, list)
    for got, wanted in zip(tf.nest.flatten(found), values, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_an_array_of_another_type_or_shape_is_refused():
    layout = Layout([ArraySpec(np.dtype(np.float32), (None, 2))])
    layout.pack([np.zeros([3, 2], np.float32)], 3)
    for wrong in (np.zeros([3, 2]), np.zeros([2, 2], np.float32), np.zeros([6], np.float32)):
        with pytest.raises(Misfit, match="expected float32"):
            layout.pack([wrong], 3)


@pytest.mark.parametrize("bytes_", [0, 63, 65, 128])
def test_bytes_of_another_size_are_refused(bytes_):
    layout = Layout([ArraySpec(np.dtype(np.float32), (None, 2))])
    with pytest.raises(Misfit):
        layout.unpack(np.zeros([bytes_], np.uint8), 3)


def test_a_layout_of_weights_survives_its_description():
    layout = Layout([ArraySpec(np.dtype(kind), (2, 3)) for kind in DTYPES])
    copy = arrays_layout(layout.describe())
    assert copy.describe() == layout.describe() and copy.digest() == layout.digest()
    assert Layout([ArraySpec(np.dtype(np.uint8), (2, 3))]).digest() != layout.digest()
