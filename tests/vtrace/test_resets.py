"""Two episodes in one unroll get the targets that each would get alone."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import vtrace


def episode(transitions, rng):
    """An episode's inputs: its transitions, and the value of its final observation."""
    return {
        "log_rhos": rng.normal(size=(transitions, 1)),
        "discounts": np.full((transitions, 1), 0.99),
        "rewards": rng.normal(size=(transitions, 1)),
        "values": rng.normal(size=(transitions, 1)),
        "bootstrap_value": rng.normal(size=(1,)),
    }


def joined(before, after, reset):
    """Both in one unroll, with a reset from the row of the final observation to the next."""
    fields = ("log_rhos", "discounts", "rewards", "values")
    reset_row = reset | {"values": before["bootstrap_value"][None]}
    unroll = {name: np.concatenate([before[name], reset_row[name], after[name]]) for name in fields}
    is_reset = np.zeros_like(unroll["values"], bool)
    is_reset[len(before["values"])] = True
    unroll["rewards"], unroll["discounts"] = vtrace.mask_resets(
        unroll["rewards"], unroll["discounts"], unroll["values"], is_reset
    )
    return unroll | {"bootstrap_value": after["bootstrap_value"]}


@settings(max_examples=40)
@given(
    before=st.integers(0, 12),
    after=st.integers(0, 12),
    terminated=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_targets_around_a_reset_are_those_of_the_separate_episodes(before, after, terminated, seed):
    rng = np.random.default_rng(seed)
    episodes = episode(before, rng), episode(after, rng)
    if terminated:
        episodes[0]["discounts"][-1:] = 0.0
    garbage = {
        "log_rhos": rng.normal(size=(1, 1), scale=30),
        "discounts": np.ones((1, 1)),
        "rewards": rng.normal(size=(1, 1), scale=1e6),
    }
    together = vtrace.from_importance_weights(**joined(*episodes, garbage))
    alone = [vtrace.from_importance_weights(**one) for one in episodes]
    final_value = episodes[0]["bootstrap_value"][None]
    for got, first, reset, second in zip(together, *_with_reset(alone, final_value), strict=True):
        np.testing.assert_allclose(got, np.concatenate([first, reset, second]), atol=1e-5)


def _with_reset(alone, final_value):
    """Targets and advantages: of the first episode, of the reset (V and 0), of the second."""
    return alone[0], (final_value, np.zeros_like(final_value)), alone[1]


@pytest.mark.parametrize("threshold", [1.0, None])
def test_a_reset_has_its_value_as_target_and_no_advantage(threshold):
    values = np.array([[1.7], [-2.3], [0.1]], np.float32)
    is_reset = np.array([[False], [True], [False]])
    rewards, discounts = vtrace.mask_resets(np.ones((3, 1)), np.ones((3, 1)), values, is_reset)
    returns = vtrace.from_importance_weights(
        np.full((3, 1), 1e30), discounts, rewards, values, [5.0], threshold, threshold
    )
    assert returns.vs[1, 0] == values[1, 0]
    assert returns.pg_advantages[1, 0] == 0.0


def test_other_rows_are_unchanged():
    rewards, discounts, values = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    masked = vtrace.mask_resets(rewards, discounts, values, np.zeros((4, 2), bool))
    np.testing.assert_array_equal(masked, [rewards, discounts])


def test_an_error_names_a_mask_of_another_shape():
    rows = tf.zeros([5, 2])
    with pytest.raises(ValueError, match=r"is_reset must .* \[5, 2\] .* got shape \[6, 2\]"):
        vtrace.mask_resets(rows, rows, rows, tf.zeros([6, 2], tf.bool))
