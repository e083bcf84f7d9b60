"""The layout of messages between processes, and what learner and actors must agree on."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.trajectory import Unroll
from environments import EnvironmentSpec, described
from trainer.acting.settings import LevelSettings
from trainer.learning.batches import UNTIMED
from trainer.learning.worker import Computed
from transport import ArraySpec, Identity, Layout, make_identity
from transport.compression import Compressed, Zstd


def block_layout(blank: Unroll | Computed, compression: str = "none", most: int = 1) -> Layout:
    """The layout of blocks like this one, of ``most`` unrolls; ``--compression`` says how sent."""
    nest = _of_block(blank)
    return Layout(nest) if compression == "none" else Compressed(nest, Zstd(), most)


def _of_block(blank: Unroll | Computed) -> Any:
    if isinstance(blank, Unroll):
        return _of_unroll(blank)
    whole = tf.nest.map_structure(lambda one: ArraySpec(one.dtype, one.shape), blank.contribution)
    samples = [ArraySpec(one.dtype, (len(one), None)) for one in blank.samples]
    origin = ArraySpec(blank.origin.dtype, ())
    return Computed(_of_unroll(blank.unrolls), whole, samples, origin)


def _of_unroll(blank: Unroll) -> Unroll:
    """The specs of its arrays, for any number of unrolls."""

    def spec_of(array: np.ndarray, axis: int) -> ArraySpec:
        shape = (*array.shape[:axis], None, *array.shape[axis + 1 :])
        return ArraySpec(array.dtype, shape)

    fields = {
        name: tf.nest.map_structure(
            lambda array, axis=int(name not in UNTIMED): spec_of(array, axis), value
        )
        for name, value in blank._asdict().items()
    }
    return Unroll(**fields)


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
    unroll_length: int,
    compression: str,
    blocks: Layout,
    agent_of_several: str,
    rules: Mapping[str, Any],
) -> Identity:
    """Everything on which an actor must agree with its learner.

    ``agent_of_several`` is the name of one of ``--agents``, ``rules`` are settings of what actors
    compute with.
    """
    own: dict[str, Any] = dataclasses.asdict(level) | {
        "agent": agent_of_several,
        "bodies": ", ".join(spec.bodies),
        "algorithm": algorithm.lower(),
        "agent_name": agent_name.lower(),
        "unroll_length": unroll_length,
        "compression": compression,
        "observations": f"{spec.observation_space.dtype}{list(spec.observation_space.shape)}",
        "frame_stack": spec.frame_stack,
        "actions": spec.action_space,
        "weights": f"{sum(int(tf.size(w)) for w in agent.variables):,}",
    }
    own |= rules
    if spec.kinds:
        own["bodies"] = described(spec.kinds)
    return make_identity(own, blocks.digest())
