"""Plays whole games with a trained agent."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from algorithms.algorithm import Algorithm
from algorithms.trajectory import EnvironmentStep
from environments import Episode, VectorEnvironment
from trainer.acting.deciding import decide


class Choice(NamedTuple):
    """The agent's actions on a row, and the network's output."""

    action: np.ndarray  # [B, ...]
    policy: np.ndarray  # [B, P], see ``AgentOutput``
    baseline: Any  # [B] or [B, L], or ()


class Player:
    """Chooses actions for a batch of environments, row by row; call ``start`` first."""

    def __init__(self, agent: Any, algorithm: Algorithm, greedy: bool):
        self._agent = agent
        self._algorithm = algorithm
        self._greedy = greedy

    def start(self, batch_size: int, seed: int) -> None:
        """Resets the agent's state; the same seed samples the same actions."""
        self._state = self._agent.initial_state(batch_size)
        self._seed = np.array([seed, 0], np.int32)

    def act(self, step: EnvironmentStep, last_action: np.ndarray) -> Choice:
        """The actions to take on a row; ``last_action`` led to it."""
        self._seed[1] += 1
        choice, self._state = self._act(step, last_action, self._state, self._seed)
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), choice)

    @tf.function(autograph=False)
    def _act(self, step: EnvironmentStep, last_action: Any, state: Any, seed: Any) -> Any:
        decision, state = decide(
            self._agent,
            self._algorithm,
            step.observation,
            step.reward,
            last_action,
            step.first,
            state,
            seed,
            self._greedy,
        )
        return Choice(decision.action, *decision.output), state


Onlooker = Callable[[VectorEnvironment, EnvironmentStep, Choice], None]


def play(
    environment: VectorEnvironment,
    player: Player,
    num_episodes: int,
    *,
    seed: int,
    onlookers: tuple[Onlooker, ...] = (),
    finished: Callable[[Episode], None] = lambda episode: None,
) -> list[Episode]:
    """Plays ``num_episodes`` whole games and returns them, environment by environment.

    Each environment's number of games is fixed in advance. Taking the first games to end would
    favour short ones, and the return often depends on the length.
    """
    count = environment.num_envs
    quota = [num_episodes // count + (index < num_episodes % count) for index in range(count)]
    played: list[list[Episode]] = [[] for _ in range(count)]
    player.start(count, seed)
    step, action = environment.reset(), first_action(environment)
    while any(len(mine) < due for mine, due in zip(played, quota, strict=True)):
        choice = player.act(step, action)
        for look in onlookers:
            look(environment, step, choice)
        action = choice.action
        step = environment.step(action)
        for episode in environment.episodes():
            if len(played[episode.environment]) < quota[episode.environment]:
                played[episode.environment].append(episode)
                finished(episode)
    return [episode for mine in played for episode in mine]


def first_action(environment: VectorEnvironment) -> np.ndarray:
    """Zeros in place of an action before the first one; the agent ignores them."""
    spec = environment.spec
    return np.zeros([environment.num_envs, *(spec.action_space.shape or ())], spec.action_dtype)
