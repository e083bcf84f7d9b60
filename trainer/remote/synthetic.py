"""``--synthetic_unrolls``: a learner that is never out of unrolls, as it makes them up itself."""

from typing import Any

import gymnasium
import numpy as np

from algorithms.trajectory import EnvironmentStep, Unroll
from environments import EnvironmentSpec
from trainer.acting.actor import blank_unroll
from trainer.learning.batches import Batch, join
from trainer.remote.remote_actors import RemoteActors
from trainer.settings.config import Settings
from transport import Receiver


class SyntheticActors(RemoteActors):
    """Gives one batch over and over, as soon as it is asked for."""

    def __init__(self, settings: Settings, spec: EnvironmentSpec, receiver: Receiver, agent: Any):
        super().__init__(settings, receiver, agent)
        self._batch = self._on_device(random_batch(settings, spec, agent))

    def _next(self) -> Batch:
        return self._batch


def random_batch(settings: Settings, spec: EnvironmentSpec, agent: Any) -> Unroll:
    """A batch of the level's types and shapes, in which everything is random."""
    count, rows = settings.learning.batch_size, settings.actors.unroll_length + 1
    blank = blank_unroll(spec, settings.actors.unroll_length, agent.initial_state(1))
    batch = join([blank] * count)
    random = np.random.default_rng(settings.program.seed)

    def sampled(space: gymnasium.Space, like: np.ndarray) -> np.ndarray:
        space.seed(settings.program.seed)
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
        action_log_prob=np.full([rows, count], -1.0, np.float32),
        level=np.arange(count, dtype=np.int32) % len(settings.level.levels),
    )
