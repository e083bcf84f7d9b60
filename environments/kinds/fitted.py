"""One level as an agent plays it that has bodies of other kinds on other levels."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from environments.kinds.rows import narrowed, widened
from environments.kinds.specs import numbers_of
from environments.step import EnvironmentSpec, EnvironmentStep, Episode, VectorEnvironment


def fitted(environment: VectorEnvironment, spec: EnvironmentSpec) -> VectorEnvironment:
    """The environment for an agent of this spec; closes it, with a UserError, if it has no such."""
    if environment.spec.kinds == spec.kinds:
        return environment
    try:
        return _Fitted(environment, spec)
    except BaseException:
        environment.close()
        raise


class _Fitted(VectorEnvironment):
    """The environment, with wide rows."""

    def __init__(self, environment: VectorEnvironment, spec: EnvironmentSpec) -> None:
        own = environment.spec
        numbers = numbers_of(own, spec)
        self.spec = dataclasses.replace(
            own,
            observation_space=spec.observation_space,
            action_space=spec.action_space,
            kinds=spec.kinds,
            row_kinds=numbers,
        )
        self.num_envs = environment.num_envs
        self.pictures_per_second = environment.pictures_per_second
        self._environment = environment
        self._numbers = np.resize(numbers, self.num_envs)
        # Bodies that differ within this level have been numbered there.
        self._numbered = bool(own.kinds) and not own.image

    def reset(self) -> EnvironmentStep:
        return self._wide(self._environment.reset())

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        own = self._environment.spec.action_space
        return self._wide(self._environment.step(narrowed(actions, self.spec.action_space, own)))

    def _wide(self, step: EnvironmentStep) -> EnvironmentStep:
        seen = step.observation[..., :-1] if self._numbered else step.observation
        wide = widened(seen, self._numbers, self.spec.observation_space)
        return step._replace(observation=wide)

    def cut(self, which: np.ndarray) -> None:
        self._environment.cut(which)

    def episodes(self) -> list[Episode]:
        return self._environment.episodes()

    def running(self) -> list[Episode] | None:
        return self._environment.running()

    def figures(self) -> Mapping[str, np.ndarray]:
        return self._environment.figures()

    def spoilt(self) -> np.ndarray | None:
        return self._environment.spoilt()

    def render(self, index: int) -> np.ndarray | None:
        return self._environment.render(index)

    def close(self) -> None:
        self._environment.close()
