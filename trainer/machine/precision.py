"""The arithmetic of the large layers."""

import functools
from pathlib import Path

import tensorflow as tf

CPU_FLAGS_OF_BFLOAT16 = {"amx_bf16", "avx512_bf16"}


def compute_dtype(precision: str) -> tf.DType:
    """The type for ``--precision``."""
    if precision == "auto":
        precision = "bfloat16" if _has_fast_bfloat16() else "float32"
    return tf.as_dtype(precision)


@functools.cache
def _has_fast_bfloat16() -> bool:
    """Whether this machine multiplies bfloat16 faster than float32."""
    if tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(
            tf.config.list_physical_devices("GPU")[0]
        )
        return details.get("compute_capability", (0, 0)) >= (8, 0)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "")
    return bool(CPU_FLAGS_OF_BFLOAT16 & set(flags.split()))
