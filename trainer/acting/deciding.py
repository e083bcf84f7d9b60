"""Turns a row of observations into actions: one function for actors, evaluation and export."""

from typing import Any, NamedTuple

import tensorflow as tf

from agents import AgentOutput
from algorithms.algorithm import Algorithm


class Decision(NamedTuple):
    """An agent's decision on one row."""

    action: tf.Tensor  # [B, ...]
    recorded: dict[str, tf.Tensor]  # [B] each, recorded with these actions
    output: AgentOutput  # [B, ...], see ``Algorithm.shown``


def decide(
    agent: Any,
    algorithm: Algorithm,
    observation: tf.Tensor,
    reward: tf.Tensor,
    last_action: tf.Tensor,
    first: tf.Tensor,
    state: Any,
    seed: tf.Tensor,
    greedy: bool = False,
    chance: tf.Tensor | None = None,
    temperature: float = 1.0,
) -> tuple[Decision, Any]:
    """The decision on a row [B, ...], and the agent's new state; runs inside a graph.

    ``chance`` [B] is that of random actions, for algorithms that explore so; a ``temperature``
    below 1 makes sampled actions less random. Values of actions become logits by it.
    """
    row = (tf.expand_dims(array, 0) for array in (observation, reward, last_action, first))
    output, state = agent(*row, state)
    output = tf.nest.map_structure(lambda rows: rows[0], output)
    more = {"chance": chance} if algorithm.explores else {}
    if temperature == 1.0:
        action, recorded = algorithm.act(agent, output, seed, greedy, **more)
        return Decision(action, recorded, algorithm.shown(output)), state
    tempered = output._replace(policy=agent.distribution.tempered(output.policy, temperature))
    action, recorded = algorithm.act(agent, tempered, seed, greedy, **more)
    if not algorithm.heads.action_values:
        return Decision(action, recorded, algorithm.shown(tempered)), state
    # What is shown are values, which no temperature changes.
    action = agent.distribution.sample(tempered.policy, seed)
    return Decision(action, recorded, algorithm.shown(output)), state
