"""Graphs of functions, compiled by XLA where that is wanted and works."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.machine.gpus import visible_gpus
from trainer.machine.graphs import QuickGraph
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

    def graph(self, function: Callable[..., Any]) -> "Graph":
        """The function as a graph."""
        return Graph(function, self)

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
        self._function = function
        self._compiler = compiler
        self._compiled: Any = None  # with XLA
        self._quick: dict[Any, QuickGraph] = {}  # without, by the shapes of arguments

    def __call__(self, *arguments: Any) -> Any:
        if self._compiler.with_xla:
            try:
                return self._with_xla()(*arguments)
            except XLA_FAILURES as error:
                if not self._compiler.falls_back(error):
                    raise
        return self._without_xla(arguments)(*arguments)

    def trace(self, *arguments: Any) -> None:
        """Makes the graph for arguments like these, without running it."""
        if self._compiler.with_xla:
            self._with_xla().get_concrete_function(*arguments)
        else:
            self._without_xla(arguments)

    # Autograph would rewrite every function, which takes most of the tracing time. Nothing here
    # uses Python conditions or loops over tensors.

    def _with_xla(self) -> Any:
        if self._compiled is None:
            self._compiled = tf.function(self._function, autograph=False, jit_compile=True)
        return self._compiled

    def _without_xla(self, arguments: tuple[Any, ...]) -> QuickGraph:
        shapes = tuple((array.shape, array.dtype) for array in tf.nest.flatten(arguments))
        key = tuple((tuple(shape), str(dtype)) for shape, dtype in shapes)
        if key not in self._quick:
            self._quick[key] = QuickGraph(self._function, arguments)
        return self._quick[key]
