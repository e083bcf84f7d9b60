"""``--synthetic_unrolls``: random unrolls in place of actors, so that a learner never waits."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from algorithms.trajectory import EnvironmentStep, Unroll
from environments import EnvironmentSpec
from trainer.learning.ahead import on_device
from trainer.learning.batches import Batch, describe, join
from trainer.learning.replayed import Feeder
from trainer.learning.rollouts import Crew
from trainer.remote.remote_actors import RemoteActors
from transport import Receiver


class SyntheticActors(RemoteActors):
    """Returns the same batch for every update, without waiting."""

    def __init__(
        self,
        receiver: Receiver,
        agent: Any,
        make_batches: Callable[[Crew], Feeder],
        batch: Unroll,
    ):
        super().__init__(receiver, agent, make_batches)
        self._batch = on_device(describe(batch, len(batch.level)))

    def _next(self) -> Batch:
        return self._batch


def random_batch(
    blank: Unroll, spec: EnvironmentSpec, count: int, levels: int, seed: int
) -> Unroll:
    """``count`` unrolls of ``blank``'s shapes, with random observations, rewards and actions."""
    batch, rows = join([blank] * count), len(blank.action)
    random = np.random.default_rng(seed)

    def sampled(space: gymnasium.Space, like: np.ndarray) -> np.ndarray:
        space.seed(seed)
        samples = [[space.sample() for _ in range(count)] for _ in range(rows)]
        return np.array(samples).astype(like.dtype).reshape(like.shape)

    return batch._replace(
        environment=EnvironmentStep(
            observation=sampled(spec.observation_space, batch.environment.observation),
            reward=random.normal(size=(rows, count)).astype(np.float32),
            terminated=np.zeros([rows, count], bool),
            first=np.zeros([rows, count], bool),
        ),
        action=sampled(spec.action_space, batch.action),
        recorded={name: np.full([rows, count], -1.0, np.float32) for name in batch.recorded},
        level=np.arange(count, dtype=np.int32) % levels,
    )
