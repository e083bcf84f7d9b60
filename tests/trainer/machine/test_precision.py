"""The arithmetic that is chosen where the network really runs."""

import pytest
import tensorflow as tf

from trainer.machine import precision

GPU = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")


@pytest.fixture
def machine(monkeypatch):
    """A machine with a GPU, which this process may see or not."""

    def make(visible, capability, processor):
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [GPU])
        monkeypatch.setattr(
            tf.config, "get_visible_devices", lambda kind=None: [GPU] if visible else []
        )
        monkeypatch.setattr(
            tf.config.experimental,
            "get_device_details",
            lambda device: {"compute_capability": capability},
        )
        monkeypatch.setattr(precision, "_processor_has_bfloat16", lambda: processor)

    return make


@pytest.mark.parametrize(
    ("visible", "capability", "processor", "chosen"),
    [
        (True, (9, 0), False, tf.bfloat16),
        (True, (7, 0), True, tf.float32),
        (False, (9, 0), False, tf.float32),  # an actor beside a learner's GPU
        (False, (7, 0), True, tf.bfloat16),
    ],
)
def test_a_hidden_gpu_does_not_decide(machine, visible, capability, processor, chosen):
    machine(visible, capability, processor)
    assert precision.compute_dtype("auto") == chosen


def test_what_is_asked_for_is_taken(machine):
    machine(True, (9, 0), True)
    assert precision.compute_dtype("float32") == tf.float32
