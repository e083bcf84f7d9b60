"""Graphs of functions, compiled by XLA where that is wanted and works."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.machine.gpus import visible_gpus
from trainer.machine.graphs import SharedGraph
from trainer.machine.terminal import say

XLA_FAILURES = (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError,
                tf.errors.InternalError, tf.errors.NotFoundError)  # fmt: skip


class Compiler:
    """Makes graphs that all use XLA or all do without."""

    def __init__(self, xla: str, on_cpu: bool = False):
        """``xla`` is the setting; ``on_cpu``: auto means XLA on a CPU, too."""
        # On a CPU oneDNN's kernels are faster than what XLA makes of convolutions.
        self.with_xla = on_cpu or bool(visible_gpus()) if xla == "auto" else xla == "on"
        self._must = xla == "on"
        self._announces = self.with_xla and bool(visible_gpus())

    def graph(self, function: Callable[..., Any]) -> "Graph":
        """The function as a graph."""
        return Graph(function, self)

    def announce(self) -> None:
        """Says once why the first update takes long."""
        if self._announces:
            say("compiling updates for the GPU, which takes up to a minute …")
        self._announces = False

    def falls_back(self, error: Exception) -> bool:
        """Whether to try again without XLA, from now on for all graphs."""
        if not self.with_xla or self._must:
            return False
        reason = " ".join(str(error).split())[:200]
        say(f"warning: XLA cannot compile updates, so they run without it: {reason}")
        self.with_xla = False
        return True


class Graph:
    """A function that is traced once for arguments of the same shapes, which are arrays."""

    def __init__(self, function: Callable[..., Any], compiler: Compiler):
        # Autograph would rewrite every function, which takes most of the tracing time. Nothing
        # here uses Python conditions or loops over tensors.
        self._functions = {
            False: function,
            True: tf.function(function, autograph=False, jit_compile=True),
        }
        self._compiler = compiler
        self._graphs: dict[Any, SharedGraph] = {}  # by whether with XLA, and arguments' shapes

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self._graph(arguments)(*arguments)
        except XLA_FAILURES as error:
            if not self._compiler.falls_back(error):
                raise
            return self._graph(arguments)(*arguments)

    def trace(self, *arguments: Any) -> None:
        """Makes the graph for arguments like these, without running it."""
        self._graph(arguments)

    def _graph(self, arguments: tuple[Any, ...]) -> SharedGraph:
        with_xla = self._compiler.with_xla
        flat = tf.nest.flatten(arguments)
        key = with_xla, *((tuple(array.shape), tf.as_dtype(array.dtype)) for array in flat)
        if key not in self._graphs:
            self._compiler.announce()
            self._graphs[key] = SharedGraph(self._functions[with_xla], arguments)
        return self._graphs[key]
