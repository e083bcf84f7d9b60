"""Choosing actions: an acting copy of the agent, shared by all actors of a process."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from impala.trajectory import EnvironmentStep


class ActingAgent:
    """An agent whose large weights are kept in the precision that it computes in.

    They are cast once an update (``load``) and not once a step. Actors may act while weights
    are loaded: a step that mixes two versions is still described rightly by the
    log-probabilities that were recorded with it.
    """

    def __init__(self, agent: Any, greedy: bool = False):
        self._agent = agent
        self._greedy = greedy
        self._traced: dict[int, Callable[..., Any]] = {}  # by the number of environments
        self._tracing = threading.Lock()
        self.version = 0

    def load(self, weights: Sequence[tf.Variable], version: int) -> None:
        """Takes over a learner's weights."""
        self._assign(list(weights))
        self.version = version

    def initial_state(self, batch_size: int) -> Any:
        """The agent's state before an episode's first observation."""
        return self._agent.initial_state(batch_size)

    def act(
        self, step: EnvironmentStep, action: Any, state: Any, seed: Any
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """Actions ``[B, ...]``, their log-probabilities ``[B]`` and the new state, for one row."""
        seen = (step.observation, step.reward, step.first, action)
        given = tf.nest.map_structure(tf.convert_to_tensor, (*seen, state, seed))
        flat = tf.nest.flatten(given)
        act = self._traced.get(len(action)) or self._trace(given, flat)
        action, log_prob, state = act(*flat)
        return action.numpy(), log_prob.numpy(), state

    def _trace(self, given: Any, flat: list[tf.Tensor]) -> Callable[..., Any]:
        """A graph of ``_act`` for so many environments.

        Called with tensors that are not nested, it takes a fraction of the time that TensorFlow
        needs to find out anew at every step that they are as they were.
        """
        count = flat[0].shape[0]
        with self._tracing:
            if count not in self._traced:
                act = tf.function(lambda *row: self._act(*tf.nest.pack_sequence_as(given, row)))
                self._traced[count] = act.get_concrete_function(*flat)
            return self._traced[count]

    def _act(
        self,
        observation: tf.Tensor,
        reward: tf.Tensor,
        first: tf.Tensor,
        action: tf.Tensor,
        state: Any,
        seed: tf.Tensor,
    ) -> Any:
        row = (array[tf.newaxis] for array in (observation, reward, action, first))
        output, state = self._agent(*row, state)
        policy, distribution = output.policy[0], self._agent.distribution
        action = distribution.mode(policy) if self._greedy else distribution.sample(policy, seed)
        return action, distribution.log_prob(policy, action), state

    @tf.function
    def _assign(self, weights: list[tf.Variable]) -> None:
        for mine, theirs in zip(self._agent.variables, weights, strict=True):
            mine.assign(tf.cast(theirs, mine.dtype))
