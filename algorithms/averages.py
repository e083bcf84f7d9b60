"""Means and spreads over real transitions, as figures."""

import tensorflow as tf


def mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weighted mean of [T, B]; 0 where the weights sum to 0."""
    return tf.math.divide_no_nan(tf.reduce_sum(weights * values), tf.reduce_sum(weights))


def spread(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weighted standard deviation of [T, B]."""
    return tf.sqrt(mean(tf.square(values - mean(values, weights)), weights))
