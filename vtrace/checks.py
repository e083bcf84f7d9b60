"""Checks of arguments: casts to float32, and errors that name an argument with a wrong shape.

Only static shapes are compared, so the same checks serve eager tensors and tensors of a graph
with unknown dimensions.
"""

from collections.abc import Sequence

import tensorflow as tf


def as_float32(value) -> tf.Tensor:
    """Any array or number, whatever its precision, as a float32 tensor of the same shape."""
    return tf.cast(tf.convert_to_tensor(value), tf.float32)


def check_shape(name: str, tensor: tf.Tensor, expected: Sequence[int | None], meaning: str) -> None:
    """Refuses `tensor` unless it can have the `expected` shape, in which None is any length."""
    if not tensor.shape.is_compatible_with(expected):
        raise ValueError(
            f"{name} must have rank {len(expected)} and shape {_text(expected)} ({meaning}), "
            f"got shape {_text(tensor.shape)}."
        )


def check_at_least_time_and_batch(name: str, tensor: tf.Tensor) -> None:
    """Refuses `tensor` unless it can have the shape `[T, B, ...]`."""
    rank = tensor.shape.rank
    if rank is not None and rank < 2:
        raise ValueError(
            f"{name} must have rank 2 or more ([T, B, ...]), got shape {_text(tensor.shape)}."
        )


def check_shape_of(name: str, tensor: tf.Tensor, like_name: str, like: tf.Tensor) -> None:
    """Refuses `tensor` unless it can have the same shape as `like`: no silent broadcasting."""
    if like.shape.rank is not None:
        check_shape(name, tensor, like.shape.as_list(), f"that of {like_name}")


def check_steps_of(name: str, tensor: tf.Tensor, like_name: str, like: tf.Tensor) -> None:
    """As `check_shape_of`, but dimensions after `[T, B]` may also be 1."""
    if like.shape.rank is None or tensor.shape.rank is None:
        return
    expected = like.shape.as_list()
    given = tensor.shape.as_list()
    if len(given) == len(expected):
        expected[2:] = [
            1 if got == 1 else length for got, length in zip(given[2:], expected[2:], strict=True)
        ]
    check_shape(name, tensor, expected, f"that of {like_name}, or 1 past time and batch")


def check_scalar(name: str, number: tf.Tensor) -> None:
    """Refuses `number` unless it can be a single number."""
    check_shape(name, number, [], "one number")


def _text(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join("?" if length is None else str(length) for length in shape) + "]"
