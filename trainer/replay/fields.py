"""Unrolls as arrays with names: the columns of a replay store."""

from typing import Any

import numpy as np
import tensorflow as tf

from agents import AgentState
from algorithms.trajectory import EnvironmentStep, Episodes, Unroll

RECORDED, EPISODES, STATE = "recorded.", "episodes.", "state."  # begin the names of arrays

OF_UNROLLS = ("level", "stream", "number", "weights_version")  # fields [B]

Layout = dict[str, tuple[tuple[int, ...], np.dtype]]


def rows_of(block: Unroll) -> dict[str, Any]:
    """The arrays [T + 1, B, ...] of a block."""
    return {
        **block.environment._asdict(),
        "action": block.action,
        **{RECORDED + name: array for name, array in block.recorded.items()},
        **{EPISODES + name: array for name, array in block.episodes._asdict().items()},
    }


def slots_of(block: Unroll, with_state: bool) -> dict[str, Any]:
    """The arrays [B, ...] of a block; of the agent's state only the LSTM's, or nothing.

    Earlier frames are never kept: they are rows before.
    """
    state = tf.nest.flatten(block.initial_state.lstm) if with_state else []
    return {
        **{name: getattr(block, name) for name in OF_UNROLLS},
        **{f"{STATE}{part}": array for part, array in enumerate(state)},
    }


def layout(example: Unroll, capacity: int, with_state: bool) -> tuple[Layout, Layout]:
    """Shapes and types of arrays [slots, T, ...] and [slots, ...] for ``capacity`` steps."""
    length = len(example.action) - 1
    slots = -(-capacity // length)
    return (
        {
            name: ((slots, length, *array.shape[2:]), array.dtype)
            for name, array in rows_of(example).items()
        },
        {
            name: ((slots, *array.shape[1:]), array.dtype)
            for name, array in slots_of(example, with_state).items()
        },
    )


def unroll_of(
    of_rows: dict[str, np.ndarray], of_slots: dict[str, np.ndarray], example: AgentState
) -> Unroll:
    """The unroll of these arrays, [T + 1, B, ...] and [B, ...]; zeros are the state it lacks."""
    count = len(of_slots["level"])
    state: AgentState = tf.nest.map_structure(lambda array: _zeros(array, count), example)
    parts = [array for name, array in of_slots.items() if name.startswith(STATE)]
    if parts:
        state = state._replace(lstm=tf.nest.pack_sequence_as(state.lstm, parts))
    return Unroll(
        environment=EnvironmentStep(*(of_rows[name] for name in EnvironmentStep._fields)),
        action=of_rows["action"],
        recorded={
            name.removeprefix(RECORDED): array
            for name, array in of_rows.items()
            if name.startswith(RECORDED)
        },
        initial_state=state,
        episodes=Episodes(*(of_rows[EPISODES + name] for name in Episodes._fields)),
        **{name: of_slots[name] for name in OF_UNROLLS},
    )


def _zeros(example: np.ndarray, count: int) -> np.ndarray:
    """Zeros [count, ...] that take no memory."""
    zeros = np.zeros([1, *example.shape[1:]], example.dtype)
    return np.broadcast_to(zeros, [count, *example.shape[1:]])
