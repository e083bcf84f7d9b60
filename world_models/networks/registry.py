"""Architectures by name."""

import numpy as np
import tensorflow as tf

from world_models.networks.deterministic import Deterministic
from world_models.networks.layers import Build
from world_models.networks.next_frame import NextFrame
from world_models.networks.sizes import Sizes
from world_models.networks.stochastic_discrete import StochasticDiscrete

ARCHITECTURES: dict[str, type[NextFrame]] = {
    "deterministic": Deterministic,
    "stochastic_discrete": StochasticDiscrete,
}


def make(name: str, sizes: Sizes, seed: int, dtype: tf.DType = tf.float32) -> NextFrame:
    """The network of that name, with all its variables."""
    return ARCHITECTURES[name](Build(np.random.default_rng(seed), dtype), sizes)
