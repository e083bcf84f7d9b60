"""The GPUs of this process."""

import contextlib

import tensorflow as tf


def take_memory_as_needed() -> None:
    """Lets several processes share a GPU: by default TensorFlow takes all of its memory at once."""
    for gpu in tf.config.list_physical_devices("GPU"):
        with contextlib.suppress(RuntimeError, ValueError):  # already in use, or a virtual device
            tf.config.experimental.set_memory_growth(gpu, True)


def visible_gpus() -> list[tf.config.PhysicalDevice]:
    """Those that this process computes on; none where they are hidden from it."""
    return tf.config.get_visible_devices("GPU")
