"""V-trace from logits equals V-trace from the weights of their softmax."""

import numpy as np
import pytest
import tensorflow as tf

import vtrace


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def unroll(length=7, batch=2, actions=4):
    rng = np.random.default_rng(0)
    return {
        "behaviour_policy_logits": rng.normal(size=(length, batch, actions)),
        "target_policy_logits": rng.normal(size=(length, batch, actions)),
        "actions": rng.integers(actions, size=(length, batch)),
        "discounts": np.full((length, batch), 0.9),
        "rewards": rng.normal(size=(length, batch)),
        "values": rng.normal(size=(length, batch)),
        "bootstrap_value": rng.normal(size=batch),
    }


@pytest.mark.parametrize("xla", [False, True], ids=["graph", "xla"])
def test_log_probs_are_those_of_the_softmax_at_the_actions(xla):
    data = unroll()
    logits, actions = data["target_policy_logits"] + 10, data["actions"]
    got = tf.function(vtrace.log_probs_from_logits_and_actions, jit_compile=xla)(logits, actions)
    expected = np.take_along_axis(log_softmax(logits), actions[..., None], -1)[..., 0]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("xla", [False, True], ids=["graph", "xla"])
def test_an_action_ruled_out_by_its_logit_does_not_spoil_the_others(xla):
    logits = np.array([[[0.0, -np.inf, 0.0]], [[1e30, -1e30, 0.0]]], np.float32)
    got = tf.function(vtrace.log_probs_from_logits_and_actions, jit_compile=xla)(logits, [[0], [0]])
    np.testing.assert_allclose(got, [[np.log(0.5)], [0.0]], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_actions_may_be_any_integers(dtype):
    data = unroll()
    log_probs = vtrace.log_probs_from_logits_and_actions
    np.testing.assert_array_equal(
        log_probs(data["target_policy_logits"], data["actions"].astype(dtype)),
        log_probs(data["target_policy_logits"], data["actions"]),
    )


def test_targets_are_those_from_the_importance_weights():
    data = unroll()
    options = {"clip_rho_threshold": 3.7, "clip_pg_rho_threshold": 2.2, "lambda_": 0.8}
    got = vtrace.from_logits(**data, **options)
    actions = data.pop("actions")[..., None]
    behaviour, target = (
        np.take_along_axis(log_softmax(data.pop(f"{policy}_policy_logits")), actions, -1)[..., 0]
        for policy in ("behaviour", "target")
    )
    expected = vtrace.from_importance_weights(target - behaviour, **data, **options)
    np.testing.assert_allclose(got.vs, expected.vs, atol=1e-5)
    np.testing.assert_allclose(got.pg_advantages, expected.pg_advantages, atol=1e-5)
    np.testing.assert_allclose(got.log_rhos, target - behaviour, atol=1e-5)
    np.testing.assert_allclose(got.behaviour_action_log_probs, behaviour, atol=1e-5)
    np.testing.assert_allclose(got.target_action_log_probs, target, atol=1e-5)


def test_results_have_the_usual_order():
    assert vtrace.VTraceReturns._fields == ("vs", "pg_advantages")
    assert vtrace.VTraceFromLogitsReturns._fields == (
        *vtrace.VTraceReturns._fields,
        "log_rhos",
        "behaviour_action_log_probs",
        "target_action_log_probs",
    )


def test_bfloat16_logits_are_cast_to_float32_first():
    data = unroll()
    for name in ("behaviour_policy_logits", "target_policy_logits"):
        data[name] = tf.cast(data[name], tf.bfloat16)
    got = vtrace.from_logits(**data)
    cast_up = {name: tf.cast(data[name], tf.float32) for name in data if name.endswith("logits")}
    np.testing.assert_array_equal(got.vs, vtrace.from_logits(**(data | cast_up)).vs)
    assert {tensor.dtype for tensor in got} == {tf.float32}


def test_log_probs_carry_a_gradient_and_targets_do_not():
    data = unroll()
    logits = tf.constant(data.pop("target_policy_logits"), tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        got = vtrace.from_logits(target_policy_logits=logits, **data)
    assert tape.gradient(got.target_action_log_probs, logits) is not None
    assert tape.gradient(got.vs, logits) is None
    assert tape.gradient(got.pg_advantages, logits) is None


def test_log_probs_of_an_action_s_parts_add_up():
    """Two independent parts of 2 and 3 choices are one action of 6."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(5, 2, 2)), rng.normal(size=(5, 2, 3))
    one, two = rng.integers(2, size=(5, 2)), rng.integers(3, size=(5, 2))
    joint = (first[..., :, None] + second[..., None, :]).reshape(5, 2, 6)
    log_probs = vtrace.log_probs_from_logits_and_actions
    np.testing.assert_allclose(
        log_probs(joint, 3 * one + two), log_probs(first, one) + log_probs(second, two), atol=1e-5
    )


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("actions", (7, 2, 1), r"actions must have rank 2 .* got shape \[7, 2, 1\]"),
        ("behaviour_policy_logits", (7, 2), r"behaviour_policy_logits must have rank 3"),
        ("target_policy_logits", (6, 2, 4), r"target_policy_logits must .* \[7, 2, \?\] .* \[6,"),
        (
            "target_policy_logits",
            (7, 2, 5),
            r"target_policy_logits must .*that of behaviour_policy",
        ),
        ("values", (6, 2), r"values must .* \[7, 2\] .*actions.* got shape \[6, 2\]"),
        ("bootstrap_value", (1,), r"bootstrap_value must .* \[2\] .* got shape \[1\]"),
    ],
)
def test_an_error_names_an_argument_with_a_wrong_shape(name, shape, message, compiled):
    data = unroll()
    data[name] = np.zeros(shape, data[name].dtype)
    function = vtrace.from_logits
    with pytest.raises(ValueError, match=message):
        (tf.function(function) if compiled else function)(**data)


def test_actions_that_are_not_integers_are_refused():
    data = unroll()
    with pytest.raises(ValueError, match="actions must be integers, got float32"):
        vtrace.log_probs_from_logits_and_actions(
            data["target_policy_logits"], data["actions"].astype(np.float32)
        )
