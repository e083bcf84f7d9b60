"""From agents, which come and go, to columns of a batch, which stay."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from environments.unity.behaviour import Shown


class Rows(NamedTuple):
    """A row of each column."""

    observation: np.ndarray  # float32 [K, D]
    reward: np.ndarray  # float32 [K]
    terminated: np.ndarray  # bool [K]
    first: np.ndarray  # bool [K]
    over: np.ndarray  # bool [K], the column's episode has ended


class Columns:
    """Gives each agent a column for its episode.

    In one message, a build ends an agent's episode and starts the next. The column shows the end,
    and with its next row the new episode, `first`. A build cannot be held for one of many agents,
    so the first action of the new episode is nobody's: zeros. Where no agent is left that acts, the
    next row needs no message, and nothing is lost. A column without an agent has `first` rows.
    """

    def __init__(self, count: int, numbers: int) -> None:
        self.count = count
        self._observation = np.zeros([count, numbers], np.float32)
        self._agents: list[int | None] = [None] * count
        self._columns: dict[int, int] = {}
        # Agents without a column, and what they saw last; those who came first are first.
        self._waiting: dict[int, np.ndarray] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no column acts, though agents are there to begin."""
        return not self._columns and bool(self._waiting)

    def restart(self, shown: Shown) -> Rows:
        """The first rows after a reset of the build."""
        self._agents = [None] * self.count
        self._columns, self._waiting = {}, {}
        return self.add(shown)

    def expects_more(self, shown: Shown) -> bool:
        """Whether a message asks none of the agents that go on.

        A build sends one as soon as an agent's episode ends, also between the decisions of others.
        """
        going = self._columns.keys() - set(shown.ended)
        return bool(going) and not shown.over and going.isdisjoint(shown.asked)

    def add(self, shown: Shown) -> Rows:
        """The rows after a message."""
        free = [column for column, agent in enumerate(self._agents) if agent is None]
        reward = np.zeros(self.count, np.float32)
        terminated, first, over = (np.zeros(self.count, bool) for _ in range(3))
        for index, agent in enumerate(shown.ended):
            self._waiting.pop(agent, None)
            column = self._columns.pop(agent, None)
            if column is None:
                continue
            self._agents[column] = None
            if shown.last is not None:
                self._observation[column] = shown.last[index]
            reward[column] = shown.last_reward[index]
            terminated[column], over[column] = shown.terminated[index], True
        for index, agent in enumerate(shown.asked):
            column = self._columns.get(agent)
            if column is None:
                self._waiting[agent] = shown.observation[index]
                continue
            self._observation[column] = shown.observation[index]
            reward[column] += shown.reward[index]
        if shown.over:
            over[list(self._columns.values())] = True
            self._columns, self._waiting = {}, {}
            self._agents = [None] * self.count
        else:
            self._seat(free)
        first[free] = True
        return Rows(self._observation.copy(), reward, terminated, first, over)

    def begin(self) -> Rows:
        """The first rows of agents that wait, while none acts."""
        nothing = np.zeros([0, self._observation.shape[1]], np.float32)
        return self.add(Shown([], nothing, nothing[:, 0]))

    def actions(self, chosen: np.ndarray) -> Mapping[int, np.ndarray]:
        """The actions [K, ...] by agent."""
        return {agent: chosen[column] for agent, column in self._columns.items()}

    def _seat(self, free: list[int]) -> None:
        for column, agent in zip(free, list(self._waiting), strict=False):
            self._agents[column], self._columns[agent] = agent, column
            self._observation[column] = self._waiting.pop(agent)
