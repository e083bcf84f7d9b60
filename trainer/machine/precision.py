"""The arithmetic of the large layers."""

import functools
from pathlib import Path

import tensorflow as tf

from trainer.machine.gpus import visible_gpus

CPU_FLAGS_OF_BFLOAT16 = {"amx_bf16", "avx512_bf16"}


def compute_dtype(precision: str, on_processor: bool = False) -> tf.DType:
    """The type for ``--precision``; ``on_processor``: of a network that uses no GPU."""
    if precision == "auto":
        fast = _processor_has_bfloat16() if on_processor else _has_fast_bfloat16()
        precision = "bfloat16" if fast else "float32"
    return tf.as_dtype(precision)


def _has_fast_bfloat16() -> bool:
    """Whether what computes here, a GPU or the processor, is faster with bfloat16."""
    for gpu in visible_gpus():
        details = tf.config.experimental.get_device_details(gpu)
        return details.get("compute_capability", (0, 0)) >= (8, 0)
    return _processor_has_bfloat16()


@functools.cache
def _processor_has_bfloat16() -> bool:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "")
    return bool(CPU_FLAGS_OF_BFLOAT16 & set(flags.split()))
