"""Choosing actions: an acting copy of the agent, shared by all actors of a process."""

from collections.abc import Sequence
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
        action, log_prob, state = self._act(step, action, state, seed)
        return action.numpy(), log_prob.numpy(), state

    @tf.function
    def _act(self, step: EnvironmentStep, action: Any, state: Any, seed: Any) -> Any:
        observation, reward, _, first = (tf.expand_dims(array, 0) for array in step)
        output, state = self._agent(observation, reward, tf.expand_dims(action, 0), first, state)
        policy, distribution = output.policy[0], self._agent.distribution
        action = distribution.mode(policy) if self._greedy else distribution.sample(policy, seed)
        return action, distribution.log_prob(policy, action), state

    @tf.function
    def _assign(self, weights: list[tf.Variable]) -> None:
        for mine, theirs in zip(self._agent.variables, weights, strict=True):
            mine.assign(tf.cast(theirs, mine.dtype))
