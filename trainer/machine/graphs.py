"""Functions as graphs that are called by one operation.

TensorFlow's usual call of a traced function spends up to milliseconds on checking its arguments
again, while holding the interpreter's lock.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class QuickGraph:
    """A function's graph for arguments of the given shapes, which must not change."""

    def __init__(self, function: Callable[..., Any], given: tuple[Any, ...]):
        traced = tf.function(
            lambda *flat: function(*tf.nest.pack_sequence_as(given, flat)), autograph=False
        )
        arrays = map(tf.convert_to_tensor, tf.nest.flatten(given))
        self._graph = traced.get_concrete_function(*arrays)
        self._returned = self._graph.structured_outputs
        self._variables = list(self._graph.captured_inputs)
        self._types = [output.dtype for output in self._graph.outputs]

    def __call__(self, *arguments: Any) -> Any:
        outputs = tf.raw_ops.StatefulPartitionedCall(
            args=[*tf.nest.flatten(arguments), *self._variables],
            Tout=self._types,
            f=self._graph.name,
        )
        return tf.nest.pack_sequence_as(self._returned, outputs)
