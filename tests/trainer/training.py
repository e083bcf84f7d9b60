"""The parts of a training, made as a real one makes them, to be tested one by one."""

import copy
import functools
from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np

from algorithms.trajectory import Unroll
from environments import EnvironmentSpec
from trainer import build
from trainer.acting.acting_agent import ActingAgent
from trainer.acting.actor import Actor
from trainer.learning.learner import Learner
from trainer.settings.config import Settings


def small(level_name: str, **changes: Any) -> Settings:
    """Settings for tests that are quick, and exact enough to compare."""
    chosen: dict[str, Any] = {
        "precision": "float32",
        "num_actors": 1,
        "envs_per_actor": 3,
        "env_threads": 1,
        "unroll_length": 6,
        "batch_size": 3,
    }
    return Settings(level_name=level_name, **chosen | changes)


class Parts(NamedTuple):
    """A learner and an acting agent with the same weights."""

    settings: Settings
    spec: EnvironmentSpec
    learner: Learner
    acting: ActingAgent

    def actor(self, index: int = 0) -> Actor:
        """An actor as the training's thread makes it."""
        return Actor(
            build.actor_environment(self.settings, index),
            self.acting,
            self.settings.actors.unroll_length,
            level=index % len(self.settings.level.levels),
            seed=index,
        )


def parts(settings: Settings) -> Parts:
    """The learner and the acting agent; weights get noise, as a fresh policy is uniform."""
    spec = build.level_spec(settings)
    learner = build.learner(settings, spec)
    random = np.random.default_rng(3)
    for weight in learner.agent.trainable_variables:
        weight.assign_add(0.05 * random.normal(size=weight.shape).astype(np.float32))
    acting = ActingAgent(build.acting_agent(settings, spec), build.algorithm(settings))
    acting.load(learner.weights, learner.updates)
    return Parts(settings, spec, learner, acting)


def block(settings: Settings, seed: int = 0) -> Unroll:
    """A block of unrolls from a real environment, the same at each call."""
    return copy.deepcopy(_block(settings, seed))


@functools.cache
def _block(settings: Settings, seed: int) -> Unroll:
    made = parts(settings)
    actor = made.actor(seed * len(settings.level.levels))
    actor.unroll()
    return actor.unroll()


def values_of(variables: Any) -> list[np.ndarray]:
    """Copies of variables' values."""
    return [variable.numpy().copy() for variable in variables]


def endless(batch: Any) -> Any:
    """Actors of a training that always have this batch."""
    return Namespace(
        publish=lambda learner: None,
        present=lambda: 1,
        next=lambda wait_s: batch,
        episodes=lambda: np.zeros([0, 3]),
        waits=dict,
    )
