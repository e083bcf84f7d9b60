"""V-trace equals the paper's sums, refuses wrong shapes, and stays finite."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import vtrace

# Against float64: 1e-5 of the largest number involved.
TOLERANCE = 1e-5


def steps(length, batch, trailing=(), seed=0, spread=1.0):
    """A plausible unroll: some episodes end, and the policies differ by `spread`."""
    rng = np.random.default_rng(seed)
    shape = (length, batch, *trailing)
    return {
        "log_rhos": rng.normal(size=shape, scale=spread).astype(np.float32),
        "discounts": (0.99 * (rng.random(shape) > 0.05)).astype(np.float32),
        "rewards": rng.normal(size=shape).astype(np.float32),
        "values": rng.normal(size=shape, scale=3).astype(np.float32),
        "bootstrap_value": rng.normal(size=shape[1:], scale=3).astype(np.float32),
    }


def as_in_the_paper(
    log_rhos,
    discounts,
    rewards,
    values,
    bootstrap_value,
    clip_rho_threshold=1.0,
    clip_pg_rho_threshold=1.0,
    lambda_=1.0,
    clip_c_threshold=1.0,
):
    """The definition, as sums over later steps and products over those between, in float64.

    v_s = V_s + sum over t >= s of (product over s <= i < t of discount_i c_i) rho_t error_t.
    """
    rhos = np.exp(np.float64(log_rhos))
    clipped = rhos if clip_rho_threshold is None else np.minimum(rhos, clip_rho_threshold)
    pg_rhos = rhos if clip_pg_rho_threshold is None else np.minimum(rhos, clip_pg_rho_threshold)
    traces = rhos if clip_c_threshold is None else np.minimum(rhos, clip_c_threshold)
    decays = np.float64(discounts) * lambda_ * traces
    all_values = np.concatenate([values, bootstrap_value[None]]).astype(np.float64)
    errors = clipped * (rewards + discounts * all_values[1:] - all_values[:-1])
    vs = all_values.copy()
    for s in range(len(values)):
        for t in range(s, len(values)):
            vs[s] += np.prod(decays[s:t], axis=0) * errors[t]
    return vs[:-1], pg_rhos * (rewards + discounts * vs[1:] - all_values[:-1])


def assert_close(got, expected):
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(np.asarray(got) / scale, expected / scale, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("xla", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("length", [1, 2, 3, 20, 200])
def test_targets_and_advantages_are_the_sums_of_the_paper(length, xla):
    data = steps(length, 4, seed=length)
    returns = tf.function(vtrace.from_importance_weights, jit_compile=xla)(**data)
    vs, advantages = as_in_the_paper(**data)
    assert_close(returns.vs, vs)
    assert_close(returns.pg_advantages, advantages)


@settings(max_examples=40)
@given(
    length=st.integers(1, 40),
    trailing=st.sampled_from([(), (1,), (2, 3)]),
    spread=st.sampled_from([0.0, 0.3, 3.0]),
    clips=st.tuples(*[st.sampled_from([None, 0.5, 1.0, 3.7])] * 2),
    trace=st.sampled_from([0.5, 1.0]),
    lambda_=st.floats(0, 1),
    seed=st.integers(0, 2**16),
)
def test_they_are_right_for_any_thresholds_lambda_and_trailing_dimensions(
    length, trailing, spread, clips, trace, lambda_, seed
):
    data = steps(length, 2, trailing, seed, spread)
    options = {
        "clip_rho_threshold": clips[0],
        "clip_pg_rho_threshold": clips[1],
        "clip_c_threshold": trace,
        "lambda_": lambda_,
    }
    returns = vtrace.from_importance_weights(**data, **options)
    vs, advantages = as_in_the_paper(**data, **options)
    assert returns.vs.shape == returns.pg_advantages.shape == data["values"].shape
    assert_close(returns.vs, vs)
    assert_close(returns.pg_advantages, advantages)


@settings(max_examples=20)
@given(length=st.integers(1, 60), seed=st.integers(0, 2**16))
def test_on_policy_the_target_is_the_n_step_return(length, seed):
    data = steps(length, 3, seed=seed) | {"log_rhos": np.zeros((length, 3), np.float32)}
    to_go, returns_to_go = np.float64(data["bootstrap_value"]), []
    for reward, discount in zip(data["rewards"][::-1], data["discounts"][::-1], strict=True):
        to_go = reward + discount * to_go
        returns_to_go.append(to_go)
    expected = np.stack(returns_to_go[::-1])
    returns = vtrace.from_importance_weights(**data)
    assert_close(returns.vs, expected)
    assert_close(returns.pg_advantages, expected - data["values"])


def test_with_lambda_zero_the_target_is_the_one_step_return():
    data = steps(7, 3) | {"log_rhos": np.zeros((7, 3), np.float32)}
    next_values = np.concatenate([data["values"][1:], data["bootstrap_value"][None]])
    returns = vtrace.from_importance_weights(**data, lambda_=0.0)
    assert_close(returns.vs, data["rewards"] + data["discounts"] * next_values)


@pytest.mark.parametrize("threshold", [1.0, None])
@pytest.mark.parametrize("extreme", [1e4, -1e4, 1e30, -1e30, 3.4e38, -3.4e38])
def test_extreme_log_rhos_stay_finite(extreme, threshold):
    data = steps(20, 2)
    data["log_rhos"][3:15:2] = extreme
    data["rewards"][5], data["discounts"][5] = data["values"][5], 0.0
    returns = vtrace.from_importance_weights(
        **data, clip_rho_threshold=threshold, clip_pg_rho_threshold=threshold
    )
    assert np.isfinite(returns.vs).all() and np.isfinite(returns.pg_advantages).all()


def test_an_action_that_the_target_policy_never_takes_leaves_the_value_unchanged():
    data = steps(5, 2)
    data["log_rhos"][2] = -np.inf
    returns = vtrace.from_importance_weights(**data)
    np.testing.assert_array_equal(returns.vs[2], data["values"][2])
    np.testing.assert_array_equal(returns.pg_advantages[2], np.zeros(2))


def test_no_gradient_flows_through_targets_and_advantages():
    data = {name: tf.constant(value) for name, value in steps(5, 2).items()}
    thresholds = {"clip_rho_threshold": tf.constant(1.0), "lambda_": tf.constant(0.9)}
    with tf.GradientTape() as tape:
        tape.watch([*data.values(), *thresholds.values()])
        returns = vtrace.from_importance_weights(**data, **thresholds)
        total = tf.reduce_sum(returns.vs) + tf.reduce_sum(returns.pg_advantages)
    assert tape.gradient(total, [*data.values(), *thresholds.values()]) == [None] * 7


def test_unknown_dimensions_are_filled_when_the_graph_runs():
    @tf.function(
        input_signature=[tf.TensorSpec([None, None, 1])] * 2
        + [tf.TensorSpec([None, None, 42])] * 2
        + [tf.TensorSpec([None, 42])]
    )
    def traced(log_rhos, discounts, rewards, values, bootstrap_value):
        return vtrace.from_importance_weights(log_rhos, discounts, rewards, values, bootstrap_value)

    assert traced.get_concrete_function().structured_outputs.vs.shape.as_list()[-1] == 42
    for length in (1, 6, 33):
        data = steps(length, 2, (42,))
        data["log_rhos"], data["discounts"] = data["log_rhos"][..., :1], data["discounts"][..., :1]
        vs, advantages = as_in_the_paper(**data)
        returns = traced(*data.values())
        assert_close(returns.vs, vs)
        assert_close(returns.pg_advantages, advantages)


def test_results_are_float32_whatever_the_inputs_are():
    data = steps(6, 2)
    for dtype in (np.float64, tf.bfloat16, np.float16):
        cast = {name: tf.cast(value, dtype) for name, value in data.items()}
        assert vtrace.from_importance_weights(**cast).vs.dtype == tf.float32


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("values", (7,), r"values must have rank 2 or more .* got shape \[7\]"),
        ("bootstrap_value", (), r"bootstrap_value must have rank 1 and shape \[2\] .* \[\]"),
        ("bootstrap_value", (3,), r"bootstrap_value must .* shape \[2\] .* got shape \[3\]"),
        ("rewards", (7,), r"rewards must have rank 2 and shape \[7, 2\] .* got shape \[7\]"),
        ("rewards", (7, 1), r"rewards must .* shape \[7, 2\] .* got shape \[7, 1\]"),
        ("discounts", (8, 2), r"discounts must .* shape \[7, 2\] .* got shape \[8, 2\]"),
        ("log_rhos", (7, 2, 1), r"log_rhos must have rank 2 .* got shape \[7, 2, 1\]"),
        ("clip_rho_threshold", (1,), r"clip_rho_threshold must .*one number.* got shape \[1\]"),
        ("clip_pg_rho_threshold", (2,), r"clip_pg_rho_threshold must .*one number"),
        ("lambda_", (7,), r"lambda_ must .*one number"),
    ],
)
def test_an_error_names_an_argument_with_a_wrong_shape(name, shape, message, compiled):
    data = steps(7, 2) | {name: np.zeros(shape, np.float32)}
    function = vtrace.from_importance_weights
    with pytest.raises(ValueError, match=message):
        (tf.function(function) if compiled else function)(**data)


def test_a_bootstrap_value_without_the_trailing_dimension_is_refused_at_trace_time():
    traced = tf.function(vtrace.from_importance_weights)
    open_steps = [tf.TensorSpec([None, None, size]) for size in (1, 1, 42, 42)]
    with pytest.raises(ValueError, match="bootstrap_value must have rank 2"):
        traced.get_concrete_function(*open_steps, tf.TensorSpec([None]))


def test_a_trailing_dimension_that_is_neither_one_nor_that_of_the_values_is_refused():
    data = steps(7, 2, (42,)) | {"rewards": np.zeros((7, 2, 3), np.float32)}
    with pytest.raises(ValueError, match=r"rewards must .* \[7, 2, 42\] .* got shape \[7, 2, 3\]"):
        vtrace.from_importance_weights(**data)
