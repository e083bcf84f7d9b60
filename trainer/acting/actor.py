"""An actor: plays a batch of environments with the newest weights, a block of unrolls at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from algorithms.trajectory import MEASURED, EnvironmentStep, Episodes, Unroll
from environments import EnvironmentSpec, Episode, SharedEnvironment, VectorEnvironment
from trainer.acting.holding import Holding


class Policy(Protocol):
    """Chooses actions; see ``trainer.acting.acting_agent.ActingAgent``."""

    version: int
    records: Sequence[str]  # names of the values recorded with each action

    def initial_state(self, batch_size: int) -> Any:
        """The agent's state before an episode's first observation."""

    def act(
        self, step: EnvironmentStep, action: Any, state: Any, seed: Any, chance: Any
    ) -> tuple[Any, dict[str, Any], Any]:
        """Actions for a row, the values recorded with them, and the new state.

        ``chance`` [B] is that of random actions.
        """


class Place(NamedTuple):
    """Where unrolls are from, [B] each; see ``Unroll``."""

    level: np.ndarray
    stream: np.ndarray
    number: np.ndarray


class Seat:
    """An agent's rows in a batch of environments: its policy, its state, and what it records."""

    def __init__(
        self,
        environment: VectorEnvironment,
        policy: Policy,
        unroll_length: int,
        *,
        level: int,
        seed: int,
        first_stream: int = 0,
        chance: Callable[[int], np.ndarray] | None = None,
        holding: Holding | None = None,
        in_step: bool = False,
    ):
        """
        Args:
            environment: what is played, or the agent's part of it.
            policy: what chooses actions.
            unroll_length: agent steps in an unroll.
            level: the index of the environment's level.
            seed: of the actions.
            first_stream: the number of the first environment in the run.
            chance: the chance of random actions in each environment, after a number of updates.
            holding: puts other actions in place of the policy's where nothing is rewarded.
            in_step: a block is of the oldest weights that chose an action in it, not of their mean.
        """
        self._environment = environment
        self._policy = policy
        self.length = unroll_length
        self._level = np.full([environment.num_envs], level, np.int32)
        self._stream = np.arange(environment.num_envs, dtype=np.int32) + np.int32(first_stream)
        self._number = 0
        self._in_step = in_step
        self._holding = holding
        self._chance = chance or (lambda updates: np.zeros(environment.num_envs, np.float32))
        self._seed = np.array([seed % 2**31, 0], np.int32)
        self._rows = _Rows(environment.spec, environment.num_envs, unroll_length, policy.records)
        self._versions: list[int] = []  # of the weights that chose the block's actions
        self._state = policy.initial_state(environment.num_envs)

    def start(self, step: EnvironmentStep) -> None:
        """Takes the very first rows."""
        self._rows.start(step)

    def begin(self) -> None:
        """Begins a block of unrolls, which continues the last one."""
        self._rows = self._rows.next()
        self._initial_state = tf.nest.map_structure(np.asarray, self._state)
        self._versions, self._now = [], self._chance(self._policy.version)

    def act(self, t: int) -> np.ndarray:
        """The actions on row ``t`` of the block."""
        step, last_action = self._rows.row(t)
        self._seed[1] += 1
        self._versions.append(self._policy.version)
        self._action, self._recorded, self._state = self._policy.act(
            step, last_action, self._state, self._seed, self._now
        )
        if self._holding:
            self._action, self._recorded = self._holding.replace(
                step.reward, self._action, self._recorded
            )
        return self._action

    def take(self, t: int, step: EnvironmentStep) -> None:
        """Records row ``t``, to which the last actions led."""
        self._rows.write(t, step, self._action, self._recorded)
        self._rows.write_measures(t, self._environment.figures())
        self._rows.write_episodes(t, self._environment.episodes())

    def block(self) -> Unroll:
        """The block's unrolls."""
        spoilt = self._environment.spoilt()
        if spoilt is not None:
            self._rows.drop(spoilt)
        place = Place(self._level, self._stream, np.full_like(self._stream, self._number))
        self._number += 1
        version = min(self._versions) if self._in_step else float(np.mean(self._versions))
        return self._rows.unroll(self._initial_state, place, version)


class Actor:
    """Steps ``environment`` with ``policy``; each ``unroll`` continues the last one."""

    def __init__(
        self,
        environment: VectorEnvironment,
        policy: Policy,
        unroll_length: int,
        *,
        check: Callable[[], None] = lambda: None,
        **seat: Any,
    ):
        """Starts the environments.

        ``check`` is called before every step; an exception from it ends the unroll. The other
        arguments are those of ``Seat``.
        """
        self._environment = environment
        self._check = check
        self._seat = Seat(environment, policy, unroll_length, **seat)
        self._seat.start(environment.reset())

    def unroll(self) -> Unroll:
        """Plays ``unroll_length`` steps in every environment."""
        seat = self._seat
        seat.begin()
        for t in range(seat.length):
            self._check()
            seat.take(t + 1, self._environment.step(seat.act(t)))
        return seat.block()


class SharedActor:
    """The same where several agents play, each in a seat of its own."""

    def __init__(
        self,
        environment: SharedEnvironment,
        seats: Sequence[Seat],
        check: Callable[[], None],
    ):
        """``seats`` are those of the environment's parts, in the same order."""
        self._environment = environment
        self._seats = seats
        self._check = check
        for seat, step in zip(seats, environment.reset(), strict=True):
            seat.start(step)

    def unrolls(self) -> list[Unroll]:
        """Plays as many steps in every environment; returns each agent's block of unrolls."""
        for seat in self._seats:
            seat.begin()
        for t in range(self._seats[0].length):
            self._check()
            steps = self._environment.step([seat.act(t) for seat in self._seats])
            for seat, step in zip(self._seats, steps, strict=True):
                seat.take(t + 1, step)
        return [seat.block() for seat in self._seats]


def blank_unroll(
    spec: EnvironmentSpec, unroll_length: int, initial_state: Any, records: Sequence[str]
) -> Unroll:
    """One unroll of the right types and shapes, with arbitrary values; the state has B = 1."""
    state = tf.nest.map_structure(np.asarray, initial_state)
    zero = np.zeros([1], np.int32)
    return _Rows(spec, 1, unroll_length, records).unroll(state, Place(zero, zero, zero), 0.0)


class _Rows:
    """The arrays of one block, written row by row and then passed on without a copy."""

    def __init__(
        self, spec: EnvironmentSpec, count: int, unroll_length: int, records: Sequence[str]
    ):
        self._spec = spec
        rows, seen, acts = unroll_length + 1, spec.observation_space, spec.action_space
        self.environment = EnvironmentStep(
            observation=np.empty([rows, count, *seen.shape], seen.dtype),
            reward=np.zeros([rows, count], np.float32),
            terminated=np.zeros([rows, count], bool),
            first=np.ones([rows, count], bool),
        )
        self.action = np.zeros([rows, count, *(acts.shape or ())], spec.action_dtype)
        names = dict.fromkeys([*records, *(MEASURED + one.name for one in spec.measures)])
        self.recorded = {name: np.zeros([rows, count], np.float32) for name in names}
        self.episodes = Episodes(
            raw_return=np.zeros([rows, count], np.float32),
            length=np.zeros([rows, count], np.int32),
        )

    def start(self, step: EnvironmentStep) -> None:
        """Stores the very first step in the last row, as if an earlier block had ended with it."""
        for array, value in zip(self.environment, step, strict=True):
            array[-1] = value

    def next(self) -> "_Rows":
        """Arrays for the next block, which begins with this block's last row."""
        new = _Rows(self._spec, self.action.shape[1], len(self.action) - 1, list(self.recorded))
        for mine, theirs in zip(self.environment, new.environment, strict=True):
            theirs[0] = mine[-1]
        new.action[0] = self.action[-1]
        for name, array in self.recorded.items():
            new.recorded[name][0] = array[-1]
        return new

    def row(self, t: int) -> tuple[EnvironmentStep, np.ndarray]:
        """The agent's inputs at row ``t``: the step and the action that led to it."""
        return EnvironmentStep(*(array[t] for array in self.environment)), self.action[t]

    def write(self, t: int, step: EnvironmentStep, action: Any, recorded: dict[str, Any]) -> None:
        """Stores a step, the action that led to it and the values recorded with that action."""
        for array, value in zip(self.environment, step, strict=True):
            array[t] = value
        self.action[t] = action
        for name, values in recorded.items():
            self.recorded[name][t] = values

    def write_measures(self, t: int, figures: Mapping[str, np.ndarray]) -> None:
        """Stores what the level has measured on the way to row ``t``."""
        for name, values in figures.items():
            self.recorded[MEASURED + name][t] = values

    def write_episodes(self, t: int, ended: list[Episode]) -> None:
        """Stores the episodes that ended at row ``t``."""
        for episode in ended:
            self.episodes.raw_return[t, episode.environment] = episode.raw_return
            self.episodes.length[t, episode.environment] = episode.length

    def drop(self, columns: np.ndarray) -> None:
        """Makes all rows of some environments ones from which nothing is learned."""
        self.environment.first[1:, columns] = True
        self.environment.terminated[1:, columns] = False
        self.environment.reward[1:, columns] = 0.0

    def unroll(self, initial_state: Any, place: Place, weights_version: float) -> Unroll:
        """The block as an unroll, with the fields that hold for all of its rows."""
        return Unroll(
            environment=self.environment,
            action=self.action,
            recorded=self.recorded,
            initial_state=initial_state,
            episodes=self.episodes,
            level=place.level,
            stream=place.stream,
            number=place.number,
            weights_version=np.full_like(place.level, weights_version, np.float32),
        )
