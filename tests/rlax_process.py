"""Results of rlax, an independent implementation on another framework.

It does not import beside TensorFlow (it then needs tf_keras), so it runs in a process of its own.
"""

import atexit
import functools
import importlib.util
import json
import os
import subprocess
import sys
from typing import IO, Any

import numpy as np
import pytest

PROGRAM = """
import json, sys
import jax, jax.numpy as jnp, numpy as np, rlax

for line in sys.stdin:
    expression, data = json.loads(line)
    data = {name: np.asarray(value, kind) for name, (value, kind) in data.items()}
    print(json.dumps(np.asarray(eval(expression, globals(), data)).tolist()), flush=True)
"""

needs_rlax = pytest.mark.skipif(
    importlib.util.find_spec("rlax") is None, reason="rlax is not installed"
)


def evaluated(expression: str, **data: Any) -> np.ndarray:
    """The value of a Python expression with ``rlax``, ``jax``, ``jnp`` and these arrays."""
    arrays = {name: np.asarray(value) for name, value in data.items()}
    sent = {name: (array.tolist(), array.dtype.name) for name, array in arrays.items()}
    asked, answers = _process()
    print(json.dumps([expression, sent]), file=asked, flush=True)
    return np.array(json.loads(answers.readline()))


@functools.cache
def _process() -> tuple[IO[str], IO[str]]:
    """Where it is asked and answers: one process for all, as its start takes seconds."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    atexit.register(process.communicate)  # which ends what it is asked, and so the process
    return process.stdin, process.stdout
