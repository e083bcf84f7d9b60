"""An independent implementation, on another framework, computes the same targets."""

import numpy as np
import pytest

import vtrace
from tests.rlax_process import evaluated, needs_rlax


def theirs(data, **options):
    """Targets and advantages as rlax computes them, from arrays `[T, B]` (values `[T+1, B]`)."""
    of_one_environment = f"""lambda values, rewards, discounts, rhos: (
        lambda found: jnp.stack([values[:-1] + found.errors, found.pg_advantage])
    )(rlax.vtrace_td_error_and_advantage(
        values[:-1], values[1:], rewards, discounts, rhos, **{options}
    ))"""
    return evaluated(
        f"jax.vmap({of_one_environment}, in_axes=1, out_axes=2)(values, rewards, discounts, rhos)",
        **{name: np.float32(value) for name, value in data.items()},
    )


@needs_rlax
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
