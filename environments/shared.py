"""The interface of environments in which several agents play."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from environments.step import EnvironmentStep, VectorEnvironment


class SharedEnvironment(ABC):
    """Environments of one level that step together, with a part for each agent.

    A part has the agent's own spec, rows, episodes and pictures; only the whole is reset, stepped
    and closed.
    """

    parts: Sequence[VectorEnvironment]

    @abstractmethod
    def reset(self) -> list[EnvironmentStep]:
        """Restarts every environment from its seed; returns each agent's rows."""

    @abstractmethod
    def step(self, actions: Sequence[np.ndarray]) -> list[EnvironmentStep]:
        """Takes each agent's actions, in the order of the parts; returns each agent's rows."""

    @abstractmethod
    def cut(self, which: np.ndarray) -> None:
        """Makes the next step a reset of these games, bool [games]; their episodes are dropped.

        What cannot be reset alone plays on to its own end.
        """

    @abstractmethod
    def close(self) -> None:
        """Frees the resources of the environments."""


class OfOneAgent(SharedEnvironment):
    """Environments that a single agent plays."""

    def __init__(self, environment: VectorEnvironment):
        self._environment = environment
        self.parts = [environment]

    def reset(self) -> list[EnvironmentStep]:
        return [self._environment.reset()]

    def step(self, actions: Sequence[np.ndarray]) -> list[EnvironmentStep]:
        [mine] = actions
        return [self._environment.step(mine)]

    def cut(self, which: np.ndarray) -> None:
        self._environment.cut(np.repeat(which, self._environment.spec.num_bodies))

    def close(self) -> None:
        self._environment.close()
