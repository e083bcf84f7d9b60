"""An independent implementation, on another framework, computes the same targets."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import vtrace

# rlax does not import beside TensorFlow (it then needs tf_keras), so it runs in its own process.
PROGRAM = """
import json, sys
import jax, numpy as np, rlax

def of_one_environment(values, rewards, discounts, rhos):
    returns = rlax.vtrace_td_error_and_advantage(
        values[:-1], values[1:], rewards, discounts, rhos, **options
    )
    return values[:-1] + returns.errors, returns.pg_advantage

data, options = json.load(sys.stdin)
columns = [np.float32(data[name]) for name in ("values", "rewards", "discounts", "rhos")]
results = jax.vmap(of_one_environment, in_axes=1, out_axes=1)(*columns)
json.dump([result.tolist() for result in results], sys.stdout)
"""


def theirs(data, **options):
    """Targets and advantages as rlax computes them, from lists of `[T, B]` (values `[T+1, B]`)."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([{name: value.tolist() for name, value in data.items()}, options]),
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [np.array(result) for result in json.loads(done.stdout)]


@pytest.mark.skipif(importlib.util.find_spec("rlax") is None, reason="rlax is not installed")
@pytest.mark.parametrize("lambda_", [1.0, 0.7])
def test_rlax_agrees(lambda_):
    rng = np.random.default_rng(0)
    values, rewards = rng.normal(size=(51, 3)), rng.normal(size=(50, 3))
    discounts, log_rhos = 0.99 * (rng.random((50, 3)) > 0.05), rng.normal(size=(50, 3))
    options = {"clip_rho_threshold": 3.7, "clip_pg_rho_threshold": 2.2, "lambda_": lambda_}
    data = {"values": values, "rewards": rewards, "discounts": discounts}
    vs, advantages = theirs(data | {"rhos": np.exp(log_rhos)}, **options)

    ours = vtrace.from_importance_weights(
        log_rhos, discounts, rewards, values[:-1], values[-1], **options
    )
    np.testing.assert_allclose(ours.vs, vs, rtol=1e-5, atol=1e-5)
    if lambda_ == 1.0:  # below 1 rlax mixes the value into the advantage, the paper does not
        np.testing.assert_allclose(ours.pg_advantages, advantages, rtol=1e-5, atol=1e-5)
