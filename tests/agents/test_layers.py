"""Layers: initial weights, and arithmetic in a dtype that is not the weights'."""

import math

import numpy as np
import pytest
import tensorflow as tf

from agents.layers import Build, Convolution, Linear


def build(seed=0, **dtypes):
    return Build(np.random.default_rng(seed), **dtypes)


@pytest.mark.parametrize("shape", [(20, 8), (8, 20), (3, 3, 4, 6)])
def test_initial_weights_are_orthogonal(shape):
    weights = build().orthogonal(shape, gain=2.0).reshape(-1, shape[-1])
    if weights.shape[0] < weights.shape[1]:
        weights = weights.T
    np.testing.assert_allclose(weights.T @ weights, 4 * np.eye(weights.shape[1]), atol=1e-6)


def test_weights_and_arithmetic_have_separate_dtypes():
    layer = Linear(6, 3, build(compute_dtype=tf.bfloat16), gain=1.0)
    assert layer.weights.dtype == tf.float32
    assert layer(tf.ones([2, 6])).dtype == tf.bfloat16
    acting = Linear(6, 3, build(compute_dtype=tf.bfloat16, weights_dtype=tf.bfloat16), gain=1.0)
    np.testing.assert_array_equal(acting.weights, tf.cast(layer.weights, tf.bfloat16))
    np.testing.assert_array_equal(acting(tf.ones([2, 6])), layer(tf.ones([2, 6])))


def test_an_input_can_be_scaled():
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (2, 9, 9, 3)).astype(np.uint8)
    layer = Convolution(3, 5, 3, build(), gain=1.0)
    layer.bias.assign(random.normal(size=5).astype(np.float32))
    np.testing.assert_allclose(layer(pixels, tf.constant(1 / 255)), layer(pixels / 255), atol=1e-5)


def test_a_linear_layer_multiplies_and_adds_its_bias():
    layer = Linear(2, 2, build(), gain=1.0)
    layer.weights.assign(2 * np.eye(2, dtype=np.float32))
    layer.bias.assign([0.0, 1.0])
    np.testing.assert_allclose(layer(tf.constant([[1.0, 2.0]])), [[2.0, 5.0]])


def test_relu_layers_keep_the_scale_of_their_inputs():
    layer = Linear(256, 256, build(), gain=math.sqrt(2))
    given = np.random.default_rng(1).standard_normal((100, 256)).astype(np.float32)
    result = tf.nn.relu(layer(given)).numpy()
    assert math.sqrt(np.mean(result**2)) == pytest.approx(1.0, abs=0.05)
