"""Results of rlax, an independent implementation on another framework.

It does not import beside TensorFlow (it then needs tf_keras), so it runs in a process of its own.
"""

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

PROGRAM = """
import json, sys
import jax, jax.numpy as jnp, numpy as np, rlax

expression, data = json.load(sys.stdin)
data = {name: np.asarray(value, kind) for name, (value, kind) in data.items()}
json.dump(np.asarray(eval(expression, globals(), data)).tolist(), sys.stdout)
"""

needs_rlax = pytest.mark.skipif(
    importlib.util.find_spec("rlax") is None, reason="rlax is not installed"
)


def evaluated(expression: str, **data: Any) -> np.ndarray:
    """The value of a Python expression with ``rlax``, ``jax``, ``jnp`` and these arrays."""
    arrays = {name: np.asarray(value) for name, value in data.items()}
    sent = {name: (array.tolist(), array.dtype.name) for name, array in arrays.items()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([expression, sent]),
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return np.array(json.loads(done.stdout))
