"""Optimizers on TensorFlow's fused kernels: one pass over each weight, slots as variables."""

from collections.abc import Callable, Sequence
from typing import Protocol

import tensorflow as tf

from trainer.learning.settings import LearningSettings


class Optimizer(Protocol):
    """Moves weights; a checkpoint must keep its ``slots``."""

    slots: list[tf.Variable]

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Moves every weight by its gradient."""


class RMSProp:
    """mean_square += (1 - decay)(g² - mean_square); w -= lr · g / sqrt(mean_square + epsilon)."""

    def __init__(self, weights: Sequence[tf.Variable], settings: LearningSettings):
        self._weights = weights
        self._settings = settings
        self._mean_squares = [_like(w, tf.ones_like, "mean_square") for w in weights]
        self._momenta = [_like(w, tf.zeros_like, "momentum") for w in weights]
        self.slots = self._mean_squares + self._momenta

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Moves every weight by its gradient."""
        for weight, square, momentum, gradient in zip(
            self._weights, self._mean_squares, self._momenta, gradients, strict=True
        ):
            tf.raw_ops.ResourceApplyRMSProp(
                var=weight.handle,
                ms=square.handle,
                mom=momentum.handle,
                lr=learning_rate,
                rho=self._settings.decay,
                momentum=self._settings.momentum,
                epsilon=self._settings.epsilon,
                grad=gradient,
            )


class Adam:
    """Kingma and Ba's rule with their decays; ``--epsilon`` is added to the root."""

    FIRST_DECAY, SECOND_DECAY = 0.9, 0.999

    def __init__(self, weights: Sequence[tf.Variable], settings: LearningSettings):
        self._weights = weights
        self._epsilon = settings.epsilon
        self._first = [_like(w, tf.zeros_like, "first") for w in weights]
        self._second = [_like(w, tf.zeros_like, "second") for w in weights]
        self._powers = tf.Variable(
            [self.FIRST_DECAY, self.SECOND_DECAY], trainable=False, name="powers"
        )
        self.slots = [*self._first, *self._second, self._powers]

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Moves every weight by its gradient."""
        powers = self._powers.read_value()
        for weight, first, second, gradient in zip(
            self._weights, self._first, self._second, gradients, strict=True
        ):
            tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=learning_rate,
                beta1=self.FIRST_DECAY,
                beta2=self.SECOND_DECAY,
                epsilon=self._epsilon,
                grad=gradient,
            )
        self._powers.assign(powers * [self.FIRST_DECAY, self.SECOND_DECAY])


class Descent:
    """w -= lr · g."""

    def __init__(self, weights: Sequence[tf.Variable]):
        self._weights = weights
        self.slots: list[tf.Variable] = []

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Moves every weight by its gradient."""
        for weight, gradient in zip(self._weights, gradients, strict=True):
            weight.assign_sub(learning_rate * gradient)


class Advice:
    """The steps that an optimizer would make at a learning rate of 1; moves nothing itself."""

    def __init__(self, weights: Sequence[tf.Variable], settings: LearningSettings):
        self._moved = [tf.Variable(tf.zeros_like(weight), trainable=False) for weight in weights]
        self._optimizer = make(settings, self._moved)

    def steps(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """What to subtract from each weight, given its gradient; runs inside a graph."""
        for moved in self._moved:
            moved.assign(tf.zeros_like(moved))
        self._optimizer.apply(gradients, tf.constant(1.0))
        return [-moved.read_value() for moved in self._moved]


def clipped(
    gradients: list[tf.Tensor], settings: LearningSettings
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Gradients of at most the norm ``--gradients_clipping``, and their norm before."""
    norm = tf.linalg.global_norm(gradients)
    if settings.gradients_clipping > 0:
        gradients, _ = tf.clip_by_global_norm(gradients, settings.gradients_clipping, use_norm=norm)
    return gradients, norm


def _like(weight: tf.Variable, start: Callable[[tf.Tensor], tf.Tensor], what: str) -> tf.Variable:
    """A variable of a weight's shape, named after it."""
    name = f"{what}/{weight.name.removesuffix(':0')}"
    return tf.Variable(start(weight), trainable=False, name=name)


def make(settings: LearningSettings, weights: Sequence[tf.Variable]) -> Optimizer:
    """The optimizer that ``--optimizer`` names."""
    if settings.optimizer == "sgd":
        return Descent(weights)
    return (
        RMSProp(weights, settings) if settings.optimizer == "rmsprop" else Adam(weights, settings)
    )
