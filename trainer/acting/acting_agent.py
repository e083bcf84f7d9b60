"""Choosing actions: an acting copy of the agent, shared by all actors of a process."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.algorithm import Algorithm
from algorithms.trajectory import EnvironmentStep, Unroll
from trainer.acting.deciding import decide
from trainer.machine.graphs import QuickGraph


class ActingAgent:
    """An agent that keeps its large weights in the precision in which it computes.

    ``load`` casts them once per update, so that no step has to. Actors may act while weights are
    loaded: a step may mix two versions, but the values recorded with its actions are still correct.
    """

    def __init__(self, agent: Any, algorithm: Algorithm, device: str = ""):
        """``device`` is where it computes; empty: where TensorFlow decides."""
        self._agent = agent
        self._device = device
        self._algorithm = algorithm
        self.records: Sequence[str] = algorithm.records
        self._assign: QuickGraph | None = None
        self._graphs: dict[int, QuickGraph] = {}  # by the number of environments
        self._tracing = threading.Lock()
        self._changed = threading.Condition()
        self.version = 0
        self._is_loaded = False

    def load(self, weights: Sequence[Any], version: int) -> None:
        """Copies a learner's weights."""
        given = tuple(map(tf.convert_to_tensor, weights))
        if self._assign is None:
            self._assign = QuickGraph(self._assigned, given)
        self._assign(*given)
        with self._changed:
            self.version = version
            self._is_loaded = True
            self._changed.notify_all()

    def wait_for_other(self, version: int, timeout_s: float) -> bool:
        """Waits until other weights than these are loaded; returns False on a timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._is_loaded and self.version != version, timeout_s
            )

    def finish(self, unroll: Unroll) -> Any:
        """What an actor passes on of a block that it has played with this agent."""
        return unroll

    def initial_state(self, batch_size: int) -> Any:
        """The agent's state before an episode's first observation."""
        return self._agent.initial_state(batch_size)

    def act(
        self, step: EnvironmentStep, action: Any, state: Any, seed: Any, chance: Any
    ) -> tuple[np.ndarray, dict[str, np.ndarray], Any]:
        """Actions ``[B, ...]`` for a row, the values recorded with them, and the new state."""
        given = (step.observation, step.reward, step.first, action, state, seed, chance)
        with tf.device(self._device or None):  # also where what is given is copied to
            graph = self._graphs.get(len(action)) or self._trace(len(action), given)
            action, recorded, state = graph(*given)
        return (
            action.numpy(),
            {name: array.numpy() for name, array in zip(self.records, recorded, strict=True)},
            state,
        )

    def _trace(self, count: int, given: Any) -> QuickGraph:
        """The graph of ``_act`` for ``count`` environments."""
        with self._tracing:
            if count not in self._graphs:
                self._graphs[count] = QuickGraph(self._act, given)
            return self._graphs[count]

    def _act(
        self,
        observation: tf.Tensor,
        reward: tf.Tensor,
        first: tf.Tensor,
        action: tf.Tensor,
        state: Any,
        seed: tf.Tensor,
        chance: tf.Tensor,
    ) -> Any:
        decision, state = decide(
            self._agent,
            self._algorithm,
            observation,
            reward,
            action,
            first,
            state,
            seed,
            chance=chance,
        )
        return decision.action, [decision.recorded[name] for name in self.records], state

    def _assigned(self, *weights: tf.Tensor) -> tf.Tensor:
        for mine, theirs in zip(self._agent.variables, weights, strict=True):
            mine.assign(tf.cast(theirs, mine.dtype))
        return tf.constant(0)
