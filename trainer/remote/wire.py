"""What learners and actors of different processes must have in common, and how unrolls travel."""

from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.trajectory import Unroll
from environments import EnvironmentSpec
from trainer.acting import build
from trainer.acting.actor import blank_unroll
from trainer.learning.batches import UNTIMED
from trainer.settings import config
from trainer.settings.config import Settings
from transport import ArraySpec, Identity, Layout, make_identity


def block_layout(settings: Settings, spec: EnvironmentSpec, agent: Any) -> Layout:
    """The layout of blocks of unrolls."""
    blank = blank_unroll(spec, settings.actors.unroll_length, agent.initial_state(1))

    def spec_of(array: np.ndarray, axis: int) -> ArraySpec:
        shape = (*array.shape[:axis], None, *array.shape[axis + 1 :])
        return ArraySpec(array.dtype, shape)

    fields = {
        name: _map(lambda array, axis=int(name not in UNTIMED): spec_of(array, axis), value)
        for name, value in blank._asdict().items()
    }
    return Layout(Unroll(**fields))


def weights_layout(agent: Any) -> Layout:
    """The layout of an acting agent's weights, in the types in which it keeps them."""
    return Layout([ArraySpec(np.dtype(w.dtype.as_numpy_dtype), tuple(w.shape))
                   for w in agent.variables])  # fmt: skip


def identity(settings: Settings, spec: EnvironmentSpec, agent: Any, blocks: Layout) -> Identity:
    """Everything in which an actor must not differ from its learner."""
    told: dict[str, Any] = {
        field.name: settings.flat()[field.name]
        for field in config.fields()
        if field.metadata["group"] == "Environment"
    }
    told |= {
        "algorithm": settings.program.algorithm.lower(),
        "agent_name": build.agent_name(settings, spec).lower(),
        "unroll_length": settings.actors.unroll_length,
        "observations": f"{spec.observation_space.dtype}{list(spec.observation_space.shape)}",
        "frame_stack": spec.frame_stack,
        "actions": spec.action_space,
        "weights": f"{sum(int(tf.size(w)) for w in agent.variables):,}",
    }
    return make_identity(told, blocks.digest())


def _map(function: Any, nest: Any) -> Any:
    """Like ``tf.nest.map_structure`` for what may become tuples."""
    if not isinstance(nest, tuple):
        return function(nest)
    parts = [_map(function, part) for part in nest]
    return type(nest)(*parts) if hasattr(nest, "_fields") else tuple(parts)
