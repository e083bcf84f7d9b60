"""Graphs that are called by one operation: what they return, and which threads run them."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from trainer.machine import graphs
from trainer.machine.graphs import TRIED_ALONE, QuickGraph, SharedGraph

ONES = np.ones([2], np.float32)


def sums(given):
    """A structure of arrays in, another one out."""
    return {"sum": given["a"] + given["b"], "both": [given["a"], given["b"]]}


@pytest.mark.parametrize("kind", [QuickGraph, SharedGraph])
def test_structures_go_in_and_come_out_in_every_call(kind, monkeypatch):
    monkeypatch.setattr(graphs, "WORTH_SHARING_S", 0.0)
    given = {"a": ONES, "b": 2 * ONES}
    graph = kind(sums, (given,))
    for n in range(TRIED_ALONE + 2):
        found = graph({"a": n * ONES, "b": 2 * ONES})
        np.testing.assert_array_equal(found["sum"], (n + 2) * ONES)
        np.testing.assert_array_equal(found["both"], [n * ONES, 2 * ONES])


def seen_in(seen):
    """A function whose operations note the threads that run them."""

    def note(x):
        seen.append(threading.get_ident())
        return x

    return lambda x: [tf.numpy_function(note, [x], tf.float32, stateful=False) for _ in range(2)]


@pytest.mark.parametrize(
    ("kind", "worth", "alone"),
    [(QuickGraph, 0.0, True), (SharedGraph, 0.0, False), (SharedGraph, float("inf"), True)],
)
def test_long_graphs_are_run_by_tensorflows_threads(kind, worth, alone, monkeypatch):
    monkeypatch.setattr(graphs, "WORTH_SHARING_S", worth)
    seen: list[int] = []
    graph = kind(seen_in(seen), (ONES,))
    for _ in range(TRIED_ALONE):
        graph(ONES)
    assert set(seen) == {threading.get_ident()}
    seen.clear()
    graph(ONES)
    assert (set(seen) == {threading.get_ident()}) == alone
