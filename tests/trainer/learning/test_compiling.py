"""Graphs with XLA and without."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.learning import compiling
from trainer.learning.compiling import Compiler


@pytest.fixture
def said(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(compiling, "say", lines.append)
    return lines


def _twice(array):
    return 2 * array


def _in_python(array):  # XLA knows no Python
    return tf.numpy_function(_twice, [array], tf.float32)


def test_compiling_for_a_gpu_is_announced_once(said, monkeypatch):
    monkeypatch.setattr(compiling, "visible_gpus", lambda: ["a GPU"])
    compiler = Compiler("auto")
    for graph in compiler.graph(_twice), compiler.graph(_twice):
        assert list(graph(np.array([1, 2], np.float32))) == [2, 4]
    assert len(said) == 1 and "GPU" in said[0]


@pytest.mark.parametrize("xla", ["on", "off", "auto"])
def test_nothing_is_announced_without_one(xla, said):
    assert list(Compiler(xla).graph(_twice)(np.array([1, 2], np.float32))) == [2, 4]
    assert not said


def test_what_xla_cannot_compile_runs_without_it_unless_it_must(said):
    graph = Compiler("auto", on_cpu=True).graph(_in_python)
    assert list(graph(np.array([1, 2], np.float32))) == [2, 4]
    assert "XLA cannot compile" in said[0]
    with pytest.raises(compiling.XLA_FAILURES):
        Compiler("on").graph(_in_python)(np.array([1, 2], np.float32))
