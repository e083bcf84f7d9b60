"""Plays the real game, at random or with the policy, and keeps what was seen."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from environments import Episode, VectorEnvironment
from trainer import build
from trainer.acting.playing import Player
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Store
from trainer.storage.played import Part
from trainer.trained import trained_agent
from trainer.trained.trained_agent import Trained
from world_models.training import folders
from world_models.training.policy_settings import policy_settings

LONGEST_PART = 500  # rows


class Unfinished(NamedTuple):
    """A game that goes on, as it is now."""

    raw_return: float
    length: int  # agent steps


Chooser = Callable[[Any, np.ndarray], np.ndarray]  # a row and the actions before it → actions


def at_random(actions: int, seed: int) -> Chooser:
    """Chooses every action as often as any other."""
    random = np.random.default_rng(seed)
    return lambda step, last: random.integers(actions, size=len(last)).astype(np.int32)


def has_policy(settings: Settings) -> bool:
    """Whether the run has a policy yet."""
    return bool(Store(folders.of(settings).policy / "checkpoints", 1).numbered())


def by_policy(settings: Settings, count: int, seed: int) -> Chooser | None:
    """Chooses as the newest policy of the run does in ``count`` games; None if there is none."""
    own = policy_settings(settings)
    if not has_policy(settings):
        return None
    return by_agent(trained_agent.find(own, frozenset(own.flat())), count, seed)


def by_agent(
    found: Trained, count: int, seed: int, greedy: bool = False, temperature: float = 1.0
) -> Chooser:
    """Chooses as a trained agent does in ``count`` games."""
    spec = build.level_spec(found.settings)
    algorithm = build.algorithm(found.settings)
    player = Player(found.agent(spec), algorithm, greedy, temperature)
    player.start(count, seed % 2**31)
    return lambda step, last: player.act(step, last).action


@contextlib.contextmanager
def real_game(settings: Settings, count: int, start: int) -> Iterator[VectorEnvironment]:
    """``count`` real games; other ones for every ``start``."""
    environment = build.actor_environment(
        settings.replace(num_actors=1, envs_per_actor=count), 0, start
    )
    with contextlib.closing(environment):
        yield environment


class Games:
    """Real games that go on from one part to the next."""

    def __init__(self, environment: VectorEnvironment):
        self._environment = environment
        self._step = _copied(environment.reset())
        self._action = np.zeros(environment.num_envs, np.int32)
        self._returns = np.zeros(environment.num_envs)  # of the games in play
        self._lengths = np.zeros(environment.num_envs, np.int64)

    def play(
        self, choose: Chooser, steps: int, stopped: Callable[[], bool] = lambda: False
    ) -> tuple[Part, list[Episode]]:
        """At least so many agent steps, or a full part, and the episodes that ended meanwhile.

        A stop ends it earlier, between two rows. Where a game did not run as it should, its rows
        are resets, from which nothing is learned, and no steps.
        """
        rows, actions, ended = [self._step], [self._action], []
        taken = 0
        while taken < steps and len(rows) <= LONGEST_PART and not stopped():
            self._action = choose(self._step, self._action)
            self._step = _copied(self._environment.step(self._action))
            rows.append(self._step)
            actions.append(self._action)
            taken += int((~self._step.first).sum())
            over = self._environment.episodes()
            self._count(over)
            ended += over
        self._spoil(rows[1:])
        observation, reward, terminated, first = (
            np.stack([row[n] for row in rows]) for n in range(4)
        )
        return Part(observation, np.stack(actions), reward, terminated, first), ended

    def unfinished(self) -> list[Unfinished]:
        """The games in play that have not ended yet."""
        pairs = zip(self._returns.tolist(), self._lengths.tolist(), strict=True)
        return [Unfinished(*pair) for pair in pairs if pair[1]]

    def _spoil(self, rows: list[Any]) -> None:
        """Makes resets of these rows of each game that did not run as it should."""
        spoilt = self._environment.spoilt() if rows else None
        if spoilt is None:
            return
        for row in rows:  # the newest one also begins the next part
            row.first[spoilt], row.terminated[spoilt], row.reward[spoilt] = True, False, 0.0
        self._returns[spoilt] = self._lengths[spoilt] = 0

    def _count(self, over: list[Episode]) -> None:
        self._returns += self._step.reward
        self._lengths += ~self._step.first
        for episode in over:
            self._returns[episode.environment] = self._lengths[episode.environment] = 0


def _copied(step: Any) -> Any:
    return type(step)(*(np.array(one) for one in step))
