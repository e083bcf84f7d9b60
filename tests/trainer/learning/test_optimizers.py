"""RMSProp and Adam move weights as their formulas in NumPy do."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.learning import optimizers
from trainer.learning.settings import OPTIMIZERS
from trainer.settings.config import Settings

SHAPES = [(3, 2), (4,), ()]
STEPS = 5


def draws(seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [np.asarray(random.normal(size=shape), np.float32) for shape in SHAPES]


def rates() -> list[np.float32]:
    """A learning rate that decays to 0, as in a run."""
    return [np.float32(0.01 * (1 - step / (STEPS - 1))) for step in range(STEPS)]


def moved(settings: Settings) -> list[np.ndarray]:
    """The weights after a few updates of the real optimizer."""
    weights = [tf.Variable(value) for value in draws(0)]
    optimizer = optimizers.make(settings.learning, weights)
    for step, rate in enumerate(rates()):
        gradients = [tf.constant(value) for value in draws(1 + step)]
        optimizer.apply(gradients, tf.constant(rate))
    return [weight.numpy() for weight in weights]


def rmsprop(weight, gradients, decay, momentum, epsilon):
    square, speed = np.ones_like(weight), np.zeros_like(weight)
    for rate, gradient in zip(rates(), gradients, strict=True):
        square = decay * square + (1 - decay) * gradient**2
        speed = momentum * speed + rate * gradient / np.sqrt(square + epsilon)
        weight = weight - speed
    return weight


def adam(weight, gradients, epsilon):
    first, second = np.zeros_like(weight), np.zeros_like(weight)
    for step, (rate, gradient) in enumerate(zip(rates(), gradients, strict=True), start=1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        corrected = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        weight = weight - corrected * first / (np.sqrt(second) + epsilon)
    return weight


def transcribed(rule, **numbers) -> list[np.ndarray]:
    """The same updates by a formula, in float64."""
    gradients = [[np.float64(draws(1 + step)[i]) for step in range(STEPS)] for i in range(3)]
    return [
        rule(np.float64(weight), of_weight, **numbers)
        for weight, of_weight in zip(draws(0), gradients, strict=True)
    ]


def assert_close(got, wanted):
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
def test_rmsprop_adds_epsilon_inside_the_root_and_starts_mean_squares_at_1(momentum, epsilon):
    settings = Settings(optimizer="rmsprop", decay=0.9, momentum=momentum, epsilon=epsilon)
    wanted = transcribed(rmsprop, decay=0.9, momentum=momentum, epsilon=epsilon)
    assert_close(moved(settings), wanted)


@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
def test_adam_corrects_for_zero_starts_and_adds_epsilon_to_the_root(epsilon):
    wanted = transcribed(adam, epsilon=epsilon)
    assert_close(moved(Settings(optimizer="adam", epsilon=epsilon)), wanted)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_resumes_from_its_slots_alone(kind):
    settings = Settings(optimizer=kind, momentum=0.5)
    weights = [tf.Variable(value) for value in draws(0)]
    optimizer = optimizers.make(settings.learning, weights)
    for step in range(STEPS):
        if step == 2:  # a resume
            slots = [slot.numpy() for slot in optimizer.slots]
            weights = [tf.Variable(weight.numpy()) for weight in weights]
            optimizer = optimizers.make(settings.learning, weights)
            for slot, value in zip(optimizer.slots, slots, strict=True):
                slot.assign(value)
        optimizer.apply([tf.constant(g) for g in draws(1 + step)], tf.constant(rates()[step]))
    assert_close([weight.numpy() for weight in weights], moved(settings))
