"""The interface of a batch of environments, and the data of each step."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium
import numpy as np


class EnvironmentStep(NamedTuple):
    """One row of experience, batched over the environments.

    An episode's last row holds its final observation; the action chosen on that row is
    ignored, and the next row is `first`. So a row that is followed by a `first` one without
    having been `terminated` was truncated: the task could have continued. An environment that is
    not there yet after a reset, and a body that has no part in its game, have `first` rows until
    they do; nothing is learned from these.

    A `first` row with a reward of nan goes on from the row before it, which is `first`, too: both
    show what was before the episode is played, so that its stacked observations are not blank.

    The arrays are valid until the next step; copy them to keep them longer.
    """

    observation: np.ndarray  # images uint8 or float32 [N, H, W, C], all else float32 [N, D]
    reward: np.ndarray  # float32 [N], raw, of the transition that led here; 0 or nan where first
    terminated: np.ndarray  # bool [N], that transition ended the task
    first: np.ndarray  # bool [N], a reset led here


class Episode(NamedTuple):
    """An episode that is over: the whole game, all lives."""

    level: int
    raw_return: float
    length: int  # agent steps
    frames: int  # of the emulator or simulator
    environment: int = 0  # of the batch
    clipped_return: float = 0.0  # of each step's reward clipped to [-1, 1]


class Measure(NamedTuple):
    """A figure that environments of a level have at each step."""

    name: str  # in metrics.jsonl and TensorBoard
    label: str  # in the panel, and in lines


class BodyKind(NamedTuple):
    """What a body sees and does."""

    observation_space: gymnasium.spaces.Box
    action_space: gymnasium.Space


@dataclass(frozen=True)
class EnvironmentSpec:
    """What an agent needs to know about a level before it can be built."""

    level_name: str
    observation_space: gymnasium.spaces.Box  # of one row of `EnvironmentStep.observation`
    action_space: gymnasium.Space  # Discrete, MultiDiscrete or Box; Discrete starts at 0
    frame_stack: int  # how many of the newest observations the agent sees at once
    frames_per_step: int  # emulator or simulator frames that one action lasts
    image: bool  # whether an observation is an image [H, W, C]
    masked: bool = False  # whether its last numbers say which actions are allowed
    action_meanings: tuple[str, ...] | None = None
    keys: tuple[frozenset[str], ...] = ()  # that each action presses; () where the level names none
    goes_on: bool = False  # by itself, while nobody acts
    measures: tuple[Measure, ...] = ()  # what `VectorEnvironment.figures` gives
    bodies: tuple[str, ...] = ()  # of one game, if there are several: rows of it, in this order
    # What bodies of one agent see and do if they differ, see `environments.kinds`; the spaces above
    # have room for all of them. The second is the kind of each row of a game.
    kinds: tuple[BodyKind, ...] = ()
    row_kinds: tuple[int, ...] = ()

    @property
    def num_bodies(self) -> int:
        """How many rows of a batch belong to one game."""
        return max(1, len(self.bodies))

    @property
    def rows(self) -> tuple[BodyKind, ...]:
        """What each body of a game sees and does."""
        if self.kinds:
            return tuple(self.kinds[index] for index in self.row_kinds)
        return (BodyKind(self.observation_space, self.action_space),) * self.num_bodies

    @property
    def action_dtype(self) -> type[np.float32] | type[np.int32]:
        """The type in which actions are kept and travel."""
        return np.float32 if np.issubdtype(self.action_space.dtype, np.floating) else np.int32


class VectorEnvironment(ABC):
    """N environments of one level that step together."""

    spec: EnvironmentSpec
    num_envs: int
    pictures_per_second: float  # one per step, at the speed for human players

    @abstractmethod
    def reset(self) -> EnvironmentStep:
        """Restarts every environment from its seed; all rows are `first`."""

    @abstractmethod
    def step(self, actions: np.ndarray) -> EnvironmentStep:
        """Takes one action in each environment: int [N], int [N, D] or float32 [N, D]."""

    @abstractmethod
    def episodes(self) -> list[Episode]:
        """The episodes that were finished since the last call."""

    def cut(self, which: np.ndarray) -> None:  # noqa: B027
        """Makes the next step a reset of these environments, bool [N]; their episodes are dropped.

        What cannot be reset alone plays on to its own end.
        """

    def running(self) -> list[Episode] | None:
        """The episodes in play as far as they have come, one for each environment.

        None: rows tell as much, as they are `first` only where one begins.
        """
        return None

    def figures(self) -> Mapping[str, np.ndarray]:
        """The newest value of each of the spec's `measures`, float32 [N]; nan where unknown."""
        return {}

    def spoilt(self) -> np.ndarray | None:
        """Which environments did not run as they should since the last call, bool [N].

        Nothing may be learned from what they showed. None: all did.
        """
        return None

    @abstractmethod
    def render(self, index: int) -> np.ndarray | None:
        """One environment's picture as uint8 [H, W, 3], or None where it has none."""

    @abstractmethod
    def close(self) -> None:
        """Frees the resources of the environments."""
