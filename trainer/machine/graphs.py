"""Functions as graphs that are called by one operation.

TensorFlow's usual call of a traced function spends up to milliseconds on checking its arguments
again, while holding the interpreter's lock.
"""

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Handing operations to TensorFlow's threads costs up to a millisecond a call.
WORTH_SHARING_S = 0.01
TRIED_ALONE = 3  # calls; the first ones take longer than the others


class QuickGraph:
    """A function's graph for arguments of the given shapes, which must not change.

    The calling thread runs all operations, one after the other.
    """

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


class SharedGraph(QuickGraph):
    """The same, but TensorFlow's threads run operations side by side, if that takes long enough."""

    def __init__(self, function: Callable[..., Any], given: tuple[Any, ...]):
        super().__init__(function, given)
        self._calls, self._quickest = 0, float("inf")

    def __call__(self, *arguments: Any) -> Any:
        if self._calls < TRIED_ALONE:
            return self._timed(arguments)
        if self._quickest < WORTH_SHARING_S:
            return super().__call__(*arguments)
        return self._graph(*map(tf.convert_to_tensor, tf.nest.flatten(arguments)))

    def _timed(self, arguments: tuple[Any, ...]) -> Any:
        began = time.perf_counter()
        outputs = super().__call__(*arguments)
        self._quickest = min(self._quickest, time.perf_counter() - began)
        self._calls += 1
        return outputs
