"""The LSTM computes the same as Sonnet's, with a reset where an episode starts."""

import numpy as np
import sonnet as snt
import tensorflow as tf

from agents.layers import Build
from agents.lstm import LSTM

ROWS, BATCH, INPUTS, SIZE = 9, 4, 7, 5


def both():
    ours = LSTM(INPUTS, SIZE, Build(np.random.default_rng(0)))
    theirs = snt.LSTM(SIZE)
    theirs(tf.zeros([BATCH, INPUTS]), theirs.initial_state(BATCH))
    theirs.input_to_hidden.assign(ours.from_input)
    theirs.hidden_to_hidden.assign(ours.from_hidden)
    return ours, theirs


def inputs():
    random = np.random.default_rng(1)
    x = random.standard_normal((ROWS, BATCH, INPUTS)).astype(np.float32)
    return x, random.random((ROWS, BATCH)) < 0.3


def test_it_computes_the_same_as_sonnet():
    ours, theirs = both()
    x, first = inputs()
    result, end = ours(tf.constant(x), tf.constant(first), ours.initial_state(BATCH))

    state = theirs.initial_state(BATCH)
    for row in range(ROWS):
        keep = 1 - first[row, :, np.newaxis].astype(np.float32)
        state = tf.nest.map_structure(lambda s, keep=keep: s * keep, state)
        expected, state = theirs(x[row], state)
        np.testing.assert_allclose(result[row], expected, atol=1e-6)
    np.testing.assert_allclose(end.hidden, state.hidden, atol=1e-6)
    np.testing.assert_allclose(end.cell, state.cell, atol=1e-6)


def test_it_forgets_the_previous_episode():
    ours, _ = both()
    x, first = inputs()
    first[:] = False
    first[4] = True
    result, _ = ours(tf.constant(x), tf.constant(first), ours.initial_state(BATCH))
    anew, _ = ours(tf.constant(x[4:]), tf.constant(first[4:]), ours.initial_state(BATCH))
    np.testing.assert_allclose(result[4:], anew, atol=1e-6)


def test_xla_computes_the_same_gradients():
    ours, _ = both()
    x, first = inputs()

    def gradients():
        with tf.GradientTape() as tape:
            result, _ = ours(tf.constant(x), tf.constant(first), ours.initial_state(BATCH))
            loss = tf.reduce_sum(tf.square(result))
        return tape.gradient(loss, ours.trainable_variables)

    plain = tf.function(gradients)()
    for one, other in zip(plain, tf.function(gradients, jit_compile=True)(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
