"""``--synthetic_unrolls``: random unrolls in place of actors, so that a learner never waits."""

from collections.abc import Callable
from typing import Any

import numpy as np

from algorithms.trajectory import EnvironmentStep, Unroll
from environments import EnvironmentSpec, RandomActions, widened
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

    def next(self, wait_s: float) -> Batch | None:
        """The batch, however old the weights are that it is said to be of."""
        return self._ahead.next(wait_s)

    def _next(self) -> Batch:
        return self._batch


def random_batch(
    blank: Unroll, spec: EnvironmentSpec, count: int, levels: int, seed: int
) -> Unroll:
    """``count`` unrolls of ``blank``'s shapes, with random observations, rewards and actions."""
    batch, rows = join([blank] * count), len(blank.action)
    random = np.random.default_rng(seed)
    kinds = np.arange(count) % max(1, len(spec.kinds))
    space, actions = spec.observation_space, RandomActions(spec, seed)
    space.seed(seed)
    seen = np.array([[space.sample() for _ in range(count)] for _ in range(rows)])
    if spec.kinds:
        seen = widened(seen if spec.image else seen[..., :-1], kinds, space)
    taken = [actions.draw(count, kinds.tolist() if spec.kinds else ()) for _ in range(rows)]
    return batch._replace(
        environment=EnvironmentStep(
            observation=seen,
            reward=random.normal(size=(rows, count)).astype(np.float32),
            terminated=np.zeros([rows, count], bool),
            first=np.zeros([rows, count], bool),
        ),
        action=np.array(taken),
        recorded={name: np.full([rows, count], -1.0, np.float32) for name in batch.recorded},
        level=np.arange(count, dtype=np.int32) % levels,
    )
