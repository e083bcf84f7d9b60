"""Plays whole games with a trained agent."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from algorithms.algorithm import Algorithm
from algorithms.trajectory import EnvironmentStep
from environments import Episode, OfOneAgent, SharedEnvironment, VectorEnvironment
from trainer.acting.deciding import decide


class Choice(NamedTuple):
    """The agent's actions on a row, and the network's output."""

    action: np.ndarray  # [B, ...]
    policy: np.ndarray  # [B, P], see ``AgentOutput``
    baseline: Any  # [B] or [B, L], or ()


class Game(NamedTuple):
    """A game that was played, to its end or until it was cut off."""

    raw_return: float
    clipped_return: float  # of rewards clipped to [-1, 1]
    length: int  # agent steps
    frames: int  # of the emulator or simulator
    finished: bool
    environment: int = 0  # of the batch


class Player:
    """Chooses actions for a batch of environments, row by row; call ``start`` first.

    A temperature of 0 is greedy.
    """

    def __init__(self, agent: Any, algorithm: Algorithm, greedy: bool, temperature: float = 1.0):
        self._agent = agent
        self._algorithm = algorithm
        self._greedy = greedy or temperature == 0.0
        self._temperature = 1.0 if self._greedy else temperature

    def start(self, batch_size: int, seed: int) -> None:
        """Resets the agent's state; the same seed samples the same actions."""
        self._state = self._agent.initial_state(batch_size)
        self._seed = np.array([seed % 2**31, 0], np.int32)

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
            temperature=self._temperature,
        )
        return Choice(decision.action, *decision.output), state


# Also gets how many games of each environment, of one body or several, were over before the row.
Onlooker = Callable[[VectorEnvironment, EnvironmentStep, Choice, np.ndarray], None]


def play(
    environment: VectorEnvironment,
    player: Player,
    num_episodes: int,
    *,
    seed: int,
    step_limit: int = 0,
    onlookers: tuple[Onlooker, ...] = (),
    finished: Callable[[Game], None] = lambda game: None,
) -> list[Game]:
    """Plays ``num_episodes`` games and returns them, environment by environment.

    Where several bodies play a game, each of them counts as an environment and has a `Game`.
    Each environment's number of games is fixed in advance. Taking the first games to end would
    favour short ones, and the return often depends on the length. A game that has lasted for
    ``step_limit`` steps counts as it is then (0: no limit); what follows of it does not count, and
    the next one begins at once where an environment can be reset alone.
    """
    [games] = play_shared(
        OfOneAgent(environment),
        [player],
        num_episodes,
        seed=seed,
        step_limit=step_limit,
        onlookers=[onlookers],
        finished=lambda _, game: finished(game),
    )
    return games


def play_shared(
    environment: SharedEnvironment,
    players: Sequence[Player],
    num_episodes: int,
    *,
    seed: int,
    step_limit: int = 0,
    onlookers: Sequence[tuple[Onlooker, ...]] = (),
    finished: Callable[[int, Game], None] = lambda agent, game: None,
) -> list[list[Game]]:
    """The same where several agents play; the games of each agent's bodies.

    ``onlookers`` are those of each agent; ``finished`` also gets the number of the agent.
    """
    parts = environment.parts
    several = len(parts) > 1 or parts[0].spec.num_bodies > 1
    games = [
        _Games(part, num_episodes, step_limit, several, functools.partial(finished, agent))
        for agent, part in enumerate(parts)
    ]
    for agent, (player, part) in enumerate(zip(players, parts, strict=True)):
        player.start(part.num_envs, seed + agent)
    steps, actions = environment.reset(), [first_action(part) for part in parts]
    while True:
        choices = [
            player.act(step, action)
            for player, step, action in zip(players, steps, actions, strict=True)
        ]
        for part, looks, step, choice, mine in zip(
            parts, onlookers, steps, choices, games, strict=False
        ):
            for look in looks:  # also at the last row of the last game
                look(part, step, choice, mine.over)
        if not any(mine.are_due for mine in games):
            break
        actions = [choice.action for choice in choices]
        steps = environment.step(actions)
        rows = [*zip(games, steps, strict=True)]
        playing = np.logical_or.reduce([mine.playing(step) for mine, step in rows])
        for (mine, step), part in zip(rows, parts, strict=True):
            mine.add(step, part.episodes(), playing)
        cut = np.logical_or.reduce([mine.only_cut(step) for mine, step in rows])
        cut &= ~np.logical_or.reduce([mine.playing(step) for mine, step in rows])
        if cut.any():
            environment.cut(cut)
    return [[game for row in mine.played for game in row] for mine in games]


class _Games:
    """The games of each environment, counted row by row after a reset."""

    def __init__(
        self,
        environment: VectorEnvironment,
        num_episodes: int,
        step_limit: int,
        several: bool,
        finished: Callable[[Game], None],
    ):
        """``several``: whether several bodies play a game, be they of other agents."""
        count, bodies = environment.num_envs, environment.spec.num_bodies
        games = count // bodies
        self._environment, self._bodies = environment, bodies
        self._due = np.array([num_episodes // games + (i < num_episodes % games)
                              for i in range(games)])  # fmt: skip
        # Bodies that have no part in a game have no `Episode`, so it is over once nobody plays, or
        # all who do have been cut off. A game of one body always has one, and may have `first` rows
        # before it is over.
        self._several = several
        self.over = np.zeros(games, int)  # how many were, before the newest row
        self._ending = np.zeros(games, bool)  # with the newest row, where one body plays
        self._limit = step_limit
        self._frames_per_step = environment.spec.frames_per_step
        self._finished = finished
        self.played: list[list[Game]] = [[] for _ in range(count)]
        # Raw and clipped, of the games in play: as far as rows show them, or as the environment
        # says, which also counts what came with rows that are no experience.
        self._returns = np.zeros([2, count])
        self._lengths = np.zeros(count, int)
        self._cut = np.zeros(count, bool)  # the game in play was counted when it was cut off
        self._playing: np.ndarray = np.zeros(games, bool)  # any body, at the row before

    @property
    def are_due(self) -> bool:
        """Whether there are games that are still to be played."""
        counted = np.reshape([len(mine) for mine in self.played], [-1, self._bodies]).min(1)
        return bool((np.maximum(counted, self.over) < self._due).any())

    def playing(self, step: EnvironmentStep) -> np.ndarray:
        """In which games there is a body at this row that has not been cut off."""
        return self._any_body(~step.first & ~self._cut)

    def only_cut(self, step: EnvironmentStep) -> np.ndarray:
        """In which games there is one that has been cut off, and another game is to follow."""
        over = self.over + (self._playing if self._several else self._ending)
        return self._any_body(~step.first & self._cut) & (over < self._due)

    def _any_body(self, rows: np.ndarray) -> np.ndarray:
        return np.logical_or.reduce(np.reshape(rows, [-1, self._bodies]), axis=1)

    def add(self, step: EnvironmentStep, episodes: list[Episode], playing: np.ndarray) -> None:
        """Counts a row, and the episodes that it ended; anybody is ``playing`` in these games."""
        self.over += (self._playing & ~playing) if self._several else self._ending
        self._playing, self._ending = playing, np.zeros_like(self._ending)
        if self._limit:
            self._cut_off(step.first)
        for _, raw_return, length, frames, index, clipped in episodes:
            if not self._cut[index]:
                self._count(index, Game(raw_return, clipped, length, frames, True))
        self._follow(step)

    def _follow(self, step: EnvironmentStep) -> None:
        """Takes in how far the games in play have come; those that have begun are not cut off."""
        told = self._environment.running()
        if told is None:
            begun = step.first
            self._returns += [step.reward, np.clip(step.reward, -1, 1)]
            self._lengths += 1
            self._returns[:, begun], self._lengths[begun] = 0, 0
        else:
            lengths = np.array([one.length for one in told])
            begun = lengths < self._lengths
            self._returns = np.array([[one.raw_return, one.clipped_return] for one in told]).T
            self._lengths = lengths
        self._cut[begun] = False

    def _cut_off(self, ended: np.ndarray) -> None:
        """Counts the games that have reached the limit, and did not end just then."""
        cut = (self._lengths >= self._limit) & ~self._cut & ~ended
        for index in np.flatnonzero(cut):
            raw, clipped = self._returns[:, index]
            length = int(self._lengths[index])
            frames = length * self._frames_per_step
            self._count(int(index), Game(float(raw), float(clipped), length, frames, False))
            self._cut[index] = True

    def _count(self, index: int, game: Game) -> None:
        self._ending[index // self._bodies] = True
        if len(self.played[index]) < self._due[index // self._bodies]:
            self.played[index].append(game._replace(environment=index))
            self._finished(self.played[index][-1])


def first_action(environment: VectorEnvironment) -> np.ndarray:
    """Zeros in place of an action before the first one; the agent ignores them."""
    spec = environment.spec
    return np.zeros([environment.num_envs, *(spec.action_space.shape or ())], spec.action_dtype)
