"""Stacks made in the learner are, bit for bit, the stacks that the actor saw."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from agents.frame_stack import beginnings, gather, stack_frames


def stacked_one_by_one(frames, first, depth):
    """[N, ...] and [N] → [N, ..., depth * C]: a deque that is emptied when an episode starts."""
    seen: collections.deque[np.ndarray] = collections.deque(maxlen=depth)
    stacks = []
    for frame, starts in zip(frames, first, strict=True):
        if starts or not seen:
            seen.extend([np.zeros_like(frame)] * depth)
        seen.append(frame)
        stacks.append(np.concatenate(seen, axis=-1))
    return np.stack(stacks)


def stream(rows, batch, shape, dtype=np.uint8, seed=0):
    random = np.random.default_rng(seed)
    frames = random.integers(0, 256, (rows, batch, *shape)).astype(dtype)
    first = random.random((rows, batch)) < 0.2
    first[0] = True
    return frames, first


def stacked_in_unrolls(frames, first, depth, rows):
    """The stacks of unrolls of so many rows, each beginning with the last row of the one before."""
    batch, shape = frames.shape[1], frames.shape[2:]
    state = tf.zeros([batch, depth - 1, *shape], frames.dtype)
    stacks = []
    for start in range(0, len(frames), rows):
        end = min(start + rows, len(frames))
        stack, state = stack_frames(
            tf.constant(frames[start:end]),
            tf.constant(first[start:end]),
            state,
            tf.zeros(shape, frames.dtype),
        )
        stacks.append(stack.numpy().reshape(end - start, batch, *stack.shape[1:]))
    return np.concatenate(stacks)


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 40])
def test_unrolls_of_any_length_give_the_stacks_of_a_deque(depth, rows):
    frames, first = stream(40, 5, (3, 2, 1))
    expected = np.stack(
        [stacked_one_by_one(frames[:, b], first[:, b], depth) for b in range(5)], axis=1
    )
    np.testing.assert_array_equal(stacked_in_unrolls(frames, first, depth, rows), expected)


@pytest.mark.parametrize("blank", [0, 5])
def test_nothing_of_an_earlier_episode_is_seen_or_returned(blank):
    frames = tf.fill([3, 1, 2, 2, 1], tf.constant(9, tf.uint8))
    earlier = tf.fill([1, 3, 2, 2, 1], tf.constant(7, tf.uint8))
    first = tf.constant([[False], [True], [False]])
    stacks, state = stack_frames(frames, first, earlier, tf.fill([2, 2, 1], np.uint8(blank)))
    seen = [[7, 7, 7, 9], [blank, blank, blank, 9], [blank, blank, 9, 9]]
    np.testing.assert_array_equal(stacks[:, 0, 0], seen)
    np.testing.assert_array_equal(state[0, :, 0, 0, 0], [blank, 9, 9])


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_rows_that_lead_up_to_a_start_are_seen(rows):
    frames = np.arange(1, 6, dtype=np.uint8).reshape(5, 1, 1)
    first = np.array([[True], [True], [True], [False], [True]])
    reward = np.array([[0], [np.nan], [np.nan], [1], [0]], np.float32)
    begun = beginnings(tf.constant(first), tf.constant(reward)).numpy()
    stacks = stacked_in_unrolls(frames, begun, 3, rows)[:, 0]
    assert stacks.tolist() == [[0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 0, 5]]


def test_frames_are_stacked_as_seen_and_returned_unchanged():
    frames, first = stream(6, 2, (3, 2, 1))
    earlier, blank = tf.zeros([2, 3, 3, 2, 1], tf.uint8), tf.zeros([3, 2, 1], tf.uint8)
    plain, after = stack_frames(tf.constant(frames), tf.constant(first), earlier, blank)
    seen, same = stack_frames(
        tf.constant(frames),
        tf.constant(first),
        earlier,
        blank,
        lambda frames: tf.cast(frames, tf.float32) / 2,
    )
    np.testing.assert_array_equal(seen, plain.numpy() / 2)
    np.testing.assert_array_equal(after, same)


def test_frames_of_several_channels_stay_together():
    frames, first = stream(10, 2, (2, 2, 3))
    expected = stacked_one_by_one(frames[:, 1], first[:, 1], 4)
    np.testing.assert_array_equal(stacked_in_unrolls(frames, first, 4, 5)[:, 1], expected)


def test_vectors_are_stacked():
    frames, first = stream(10, 2, (3,), np.float32)
    expected = stacked_one_by_one(frames[:, 0], first[:, 0], 2)
    np.testing.assert_array_equal(stacked_in_unrolls(frames, first, 2, 5)[:, 0], expected)


def test_a_stack_of_one_is_the_frame():
    frames, first = stream(4, 2, (3, 3, 1))
    np.testing.assert_array_equal(stacked_in_unrolls(frames, first, 1, 2), frames)


def test_the_number_of_rows_may_be_known_only_at_run_time():
    frames, first = stream(9, 2, (2, 2, 1))
    unknown = tf.function(
        stack_frames,
        input_signature=[
            tf.TensorSpec([None, None, 2, 2, 1], tf.uint8),
            tf.TensorSpec([None, None], tf.bool),
            tf.TensorSpec([None, 3, 2, 2, 1], tf.uint8),
            tf.TensorSpec([2, 2, 1], tf.uint8),
        ],
    )
    earlier, blank = np.zeros([2, 3, 2, 2, 1], np.uint8), np.zeros([2, 2, 1], np.uint8)
    stacks, _ = unknown(frames, first, earlier, blank)
    expected = stacked_one_by_one(frames[:, 0], first[:, 0], 4)
    np.testing.assert_array_equal(stacks.numpy().reshape(9, 2, 2, 2, 4)[:, 0], expected)


@pytest.mark.parametrize("shape", [(5, 3, 6, 4, 1), (5, 3, 7, 7, 1), (5, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "bool"])
def test_what_is_gathered_is_what_tensorflow_gathers(shape, dtype):
    array = np.random.default_rng(1).integers(0, 256, shape).astype(dtype)
    for axis, indices in (0, [[4, 0], [1, 1]]), (1, [2, 2, 0]), (0, np.zeros([0], np.int32)):
        graph = tf.function(lambda some, picked, axis=axis: gather(some, picked, axis))
        graph = graph.get_concrete_function(tf.constant(array), tf.constant(indices))
        found = graph(tf.constant(array), tf.constant(indices))
        np.testing.assert_array_equal(found, np.take(array, indices, axis))
        gathers = [one for one in graph.graph.get_operations() if one.type == "GatherV2"]
        # A GPU has no such operation for bytes.
        assert gathers and all(one.get_attr("Tparams") != tf.uint8 for one in gathers)
