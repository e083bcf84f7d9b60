"""Next-frame networks: their shapes, what they can learn, and what their loss ignores."""

import numpy as np
import pytest
import tensorflow as tf

from tests.world_models.catch_model import windows
from world_models.networks import ARCHITECTURES, Sizes, make
from world_models.networks.loss import losses
from world_models.networks.next_frame import to_bytes, to_levels

SMALL = {"filters": 8, "doublings": 1, "levels": 16, "frames": 2, "noise": 0.0, "dropout": 0.0}


def network(name: str, height: int = 10, width: int = 10, channels: int = 1, **more: float):
    stochastic = {"state": 3, "bits": 8} if name == "stochastic_discrete" else {}
    sizes = Sizes(height, width, channels, 3, **SMALL | stochastic | more)  # type: ignore[arg-type]
    return make(name, sizes, seed=1)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("shape", [(10, 10, 1), (42, 42, 1), (21, 16, 3), (3, 5, 1)])
def test_predictions_are_as_large_as_the_picture(name, shape):
    made = network(name, *shape)
    stacks = np.zeros([2, *shape[:2], 2 * shape[2]], np.uint8)
    found = made(stacks, np.zeros(2, np.int32), made.initial_state(2))
    assert found.frame.shape == (2, *shape, 16)
    assert found.reward.shape == (2, 3) and found.end.shape == (2,)
    assert found.state.shape == made.initial_state(2).shape
    assert to_bytes(found.frame).shape == (2, *shape)


def test_halvings_and_filters_fit_the_picture():
    assert Sizes(10, 10, 1, 3).sides == [(10, 10), (5, 5), (3, 3)]
    published = Sizes(105, 80, 3, 6)
    assert len(published.sides) - 1 == 6 and published.sides[-1] == (2, 2)
    assert published.widths == [64, 128, 256, 256, 256, 256, 256]


@pytest.mark.parametrize("levels", [2, 16, 256])
def test_brightness_survives_its_levels(levels):
    bright = np.round(np.arange(levels) * 255 / (levels - 1)).astype(np.uint8)[:, None]
    found = to_bytes(tf.one_hot(to_levels(bright, levels), levels))
    assert np.array_equal(found, bright)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_it_learns_what_an_action_does(name):
    made, step = network(name), tf.keras.optimizers.Adam(0.003)

    @tf.function
    def learn(drawn):
        with tf.GradientTape() as tape:
            found = losses(made, drawn, 0.03, 0.3, 0.8)
        weights = made.trainable_variables
        gradients = tape.gradient(found.total, weights, unconnected_gradients="zero")
        step.apply_gradients(zip(gradients, weights, strict=True))
        return found

    first = learn(windows(16, 0))
    for seed in range(1, 60):
        learn(windows(16, seed))
    last = losses(made, windows(64, 1000), 0.03, 0.0, 1.0)
    assert last.picture < first.picture / 4
    assert last.end_right > 0.8 and last.pixels_right > 0.97


def test_the_loss_ignores_what_is_nearly_certain_and_what_follows_an_end():
    made, drawn = network("deterministic"), windows(8, 3)
    plain, clipped = (losses(made, drawn, clip, 0.0, 1.0).picture for clip in (0.0, 0.5))
    assert plain - 0.5 <= clipped + 1e-4 and clipped < plain
    beyond = drawn._replace(valid=tf.constant([[1.0, 0.0]] * 8))
    other = beyond._replace(reward=beyond.reward * tf.constant([[1.0, -1.0]]))
    assert losses(made, beyond, 0.0, 0.0, 1.0).reward == losses(made, other, 0.0, 0.0, 1.0).reward
