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
    """What the agent made of a row."""

    action: np.ndarray  # [B, ...]
    policy: np.ndarray  # [B, P], see ``AgentOutput``
    baseline: Any  # [B] or [B, L], or ()


class Player:
    """Acts for a batch of environments, row after row, once it was started for them."""

    def __init__(self, agent: Any, algorithm: Algorithm, greedy: bool):
        self._agent = agent
        self._algorithm = algorithm
        self._greedy = greedy

    def start(self, batch_size: int, seed: int) -> None:
        """Forgets what was played before; the same seed samples the same actions."""
        self._state = self._agent.initial_state(batch_size)
        self._seed = np.array([seed, 0], np.int32)

    def act(self, step: EnvironmentStep, last_action: np.ndarray) -> Choice:
        """The actions to take on a row; ``last_action`` is what led to it."""
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
    """``num_episodes`` whole games, environment by environment.

    How many each environment plays is settled beforehand. To take the first that end would
    favour short games, and the return often goes with the length.
    """
    count = environment.num_envs
    quota = [num_episodes // count + (index < num_episodes % count) for index in range(count)]
    played: list[list[Episode]] = [[] for _ in range(count)]
    ended: list[Episode] = []
    player.start(count, seed)
    step, action = environment.reset(), first_action(environment)
    while any(len(mine) < wanted for mine, wanted in zip(played, quota, strict=True)):
        choice = player.act(step, action)
        for look in onlookers:
            look(environment, step, choice)
        action = choice.action
        step = environment.step(action)
        # The row after an episode's last one is a first one: it tells whose episodes ended.
        whose = np.flatnonzero(step.first)
        for index, episode in zip(whose, ended, strict=True):
            if len(played[index]) < quota[index]:
                played[index].append(episode)
                finished(episode)
        ended = environment.episodes()
    return [episode for mine in played for episode in mine]


def first_action(environment: VectorEnvironment) -> np.ndarray:
    """Zeros that stand for the action before the first; the agent does not see them."""
    spec = environment.spec
    return np.zeros([environment.num_envs, *(spec.action_space.shape or ())], spec.action_dtype)
