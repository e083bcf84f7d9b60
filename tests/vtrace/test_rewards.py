"""Rewards are clipped in the ways that `--reward_clipping` offers."""

import numpy as np
import pytest
import tensorflow as tf

import vtrace
from user_error import UserError

REWARDS = np.array([[-100.0, -2.0, -0.5], [0.0, 0.5, 100.0]])


def test_abs_one_clips_to_minus_one_and_one():
    got = vtrace.clip_rewards(REWARDS, "abs_one")
    np.testing.assert_array_equal(got, [[-1, -1, -0.5], [0, 0.5, 1]])


def test_soft_asymmetric_squashes_to_five_and_weakens_negative_rewards():
    got = vtrace.clip_rewards(REWARDS, "soft_asymmetric")
    squashed = 5 * np.tanh(REWARDS / 5)
    np.testing.assert_allclose(got, np.where(REWARDS < 0, 0.3 * squashed, squashed), rtol=1e-6)
    assert got[0, 0] == -1.5 and got[1, 2] == 5.0


def test_none_leaves_rewards_unchanged():
    np.testing.assert_array_equal(vtrace.clip_rewards(REWARDS, "none"), REWARDS)


@pytest.mark.parametrize("how", vtrace.REWARD_CLIPPINGS)
def test_every_way_keeps_shape_and_sign_and_returns_float32(how):
    got = vtrace.clip_rewards(REWARDS, how)
    assert got.dtype == tf.float32
    np.testing.assert_array_equal(np.sign(got), np.sign(REWARDS))


def test_the_error_for_an_unknown_way_lists_the_known_ones():
    with pytest.raises(UserError, match="abs_one, none, soft_asymmetric, got 'abs_two'"):
        vtrace.clip_rewards(REWARDS, "abs_two")
