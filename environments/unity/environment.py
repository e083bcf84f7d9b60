"""Builds that step together, as a batch: each agent of each build is a row."""

from collections.abc import Callable, Sequence

import gymnasium
import numpy as np

from environments.spaces import agent_actions
from environments.step import EnvironmentSpec, EnvironmentStep, Episode, VectorEnvironment
from environments.tally import Tally
from environments.unity.process import Launch, Process
from environments.unity.seat import Seat


class UnityEnvironment(VectorEnvironment):
    """M builds with K agents each; agent k of build m is row m·K + k.

    A row waits for the answers of all builds. One that ends, or does not answer in time, is started
    again while the others go on. Until it is there, its rows are `first`.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        action_space: gymnasium.Space,
        launches: Sequence[Launch],
        first: Process,
        columns: int,
        level_index: int,
        say: Callable[[str], None],
    ) -> None:
        """`first` is the first build, already playing; `columns` is K; `action_space` theirs."""
        self.spec, self._columns = spec, columns
        self.num_envs = len(launches) * columns
        self.pictures_per_second = 1.0  # there are none
        _, self._actions_of_builds = agent_actions(action_space, spec.level_name)
        self._tally = Tally(self.num_envs, level_index)
        size = spec.observation_space.shape
        self._observation = np.zeros([self.num_envs, *size], np.float32)
        self._seats: list[Seat] = []
        try:
            for index, launch in enumerate(launches):
                name = f"build {index} of {spec.level_name}"
                started = None if index else first
                self._seats.append(Seat(name, spec.level_name, launch, say, started))
        except BaseException:
            self.close()
            raise

    def reset(self) -> EnvironmentStep:
        for seat in self._seats:
            seat.wait()
        self._tally.drop()
        for seat in self._seats:
            seat.reset()
        return self._row()

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        if not any(seat.is_playing for seat in self._seats):
            self._seats[0].wait()
        taken = self._actions_of_builds(np.asarray(actions))
        for seat, part in zip(self._seats, np.split(taken, len(self._seats)), strict=True):
            seat.step(part)
        return self._row()

    def _row(self) -> EnvironmentStep:
        reward = np.zeros(self.num_envs, np.float32)
        terminated, first, over = (np.zeros(self.num_envs, bool) for _ in range(3))
        for index, seat in enumerate(self._seats):
            mine = slice(index * self._columns, (index + 1) * self._columns)
            rows = seat.rows()
            if rows is None:
                first[mine] = True
                for row in range(mine.start, mine.stop):
                    self._tally.abandon(row)
                continue
            self._observation[mine], reward[mine] = rows.observation, rows.reward
            terminated[mine], first[mine], over[mine] = rows.terminated, rows.first, rows.over
        self._tally.add(reward, ~first)
        self._tally.finish(over)
        return EnvironmentStep(self._observation, reward, terminated, first)

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def render(self, index: int) -> np.ndarray | None:
        return None

    def close(self) -> None:
        for seat in self._seats:
            seat.close()
