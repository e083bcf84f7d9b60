"""The layout of messages between processes, and what learner and actors must agree on."""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.trajectory import Unroll
from environments import EnvironmentSpec
from trainer.acting.settings import LevelSettings
from trainer.learning.batches import UNTIMED
from transport import ArraySpec, Identity, Layout, make_identity


def block_layout(blank: Unroll) -> Layout:
    """The layout of blocks of unrolls like this one."""

    def spec_of(array: np.ndarray, axis: int) -> ArraySpec:
        shape = (*array.shape[:axis], None, *array.shape[axis + 1 :])
        return ArraySpec(array.dtype, shape)

    fields = {
        name: tf.nest.map_structure(
            lambda array, axis=int(name not in UNTIMED): spec_of(array, axis), value
        )
        for name, value in blank._asdict().items()
    }
    return Layout(Unroll(**fields))


def weights_layout(agent: Any) -> Layout:
    """The layout of an acting agent's weights, in the types in which it keeps them."""
    return Layout([ArraySpec(np.dtype(w.dtype.as_numpy_dtype), tuple(w.shape))
                   for w in agent.variables])  # fmt: skip


def identity(
    algorithm: str,
    agent_name: str,
    level: LevelSettings,
    spec: EnvironmentSpec,
    agent: Any,
    blank: Unroll,
) -> Identity:
    """Everything on which an actor must agree with its learner."""
    own: dict[str, Any] = dataclasses.asdict(level) | {
        "algorithm": algorithm.lower(),
        "agent_name": agent_name.lower(),
        "unroll_length": len(blank.action) - 1,
        "observations": f"{spec.observation_space.dtype}{list(spec.observation_space.shape)}",
        "frame_stack": spec.frame_stack,
        "actions": spec.action_space,
        "weights": f"{sum(int(tf.size(w)) for w in agent.variables):,}",
    }
    return make_identity(own, block_layout(blank).digest())
