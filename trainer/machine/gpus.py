"""The GPUs of this process."""

import contextlib
import os
from pathlib import Path

import tensorflow as tf

from checkout import setup_command

DRIVER = Path("/proc/driver/nvidia/gpus")  # has a folder for each GPU
HIDDEN = ("", "-1", "NoDevFiles")


def take_memory_as_needed() -> None:
    """Lets several processes share a GPU: by default TensorFlow takes all of its memory at once."""
    for gpu in tf.config.list_physical_devices("GPU"):
        with contextlib.suppress(RuntimeError, ValueError):  # already in use, or a virtual device
            tf.config.experimental.set_memory_growth(gpu, True)


def keep_one(place: int = 0) -> None:
    """Leaves this process one GPU: TensorFlow takes memory of all, and computes on the first."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[place % len(gpus)], "GPU")


def pieces(parallel_operations: int) -> int:
    """How many pieces of a batch are computed side by side: a GPU takes it whole."""
    return 1 if visible_gpus() else parallel_operations


def unused() -> str:
    """A warning if there is a GPU for this process which TensorFlow cannot use; or nothing."""
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible_gpus() or (asked is not None and asked.split(",")[0] in HIDDEN):
        return ""
    if not asked and not (DRIVER.is_dir() and any(DRIVER.iterdir())):
        return ""
    there = f"CUDA_VISIBLE_DEVICES is {asked}" if asked else "this machine has a GPU"
    return (
        f"warning: {there}, but TensorFlow cannot use a GPU here, so the processor computes. "
        f"{setup_command('tensorflow-gpu', '--gpu')} installs the TensorFlow for GPUs; "
        "CUDA_VISIBLE_DEVICES=-1 hides them."
    )


def visible_gpus() -> list[tf.config.PhysicalDevice]:
    """Those that this process computes on; none where they are hidden from it."""
    return tf.config.get_visible_devices("GPU")
