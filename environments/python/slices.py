"""Some environments of a batch, stepped one after another, or at once."""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import iterate

from environments.python.at_once import Begun, was_left_alone
from environments.python.plain import gymnasium_spec
from environments.spaces import agent_actions
from environments.view import View

Factory = Callable[[], gymnasium.Env]


class Rows(NamedTuple):
    """What one step of N environments gives; valid until the next one.

    The step after an episode's last one resets, whatever the action was.
    """

    observation: np.ndarray  # as the agent gets it, [N, ...]
    reward: np.ndarray  # float64 [N]
    terminated: np.ndarray  # bool [N]
    truncated: np.ndarray  # bool [N]
    frames: np.ndarray  # int64 [N], simulator steps of the running episode if actions are repeated
    alone: np.ndarray  # bool [N], it went on while nobody acted: the action answered nothing


class _WithoutInfo(SyncVectorEnv):
    """Leaves out infos: nobody reads them, and those of environments need not be alike."""

    def _add_info(self, vector_infos: dict, env_info: dict, env_num: int) -> dict:
        return vector_infos

    def cut(self, which: np.ndarray) -> None:
        """Makes the next step a reset of these environments, as if they were over."""
        self._truncations |= which
        self._autoreset_envs |= which


class _AtOnce(_WithoutInfo):
    """Steps environments that go on by themselves, each in a thread of its own."""

    def __init__(self, factories: list[Factory], copy: bool) -> None:
        self._threads = ThreadPoolExecutor(len(factories), "environment")
        made = (functools.partial(self._begun, factory) for factory in factories)
        super().__init__(list(made), copy=copy)

    def _begun(self, factory: Factory) -> Begun:
        return Begun(factory(), self._threads)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        for env, one in zip(self.envs, seed, strict=True):
            assert isinstance(env, Begun)
            env.begin_reset(seed=one, options=options)
        return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        over = self._terminations | self._truncations
        chosen = iterate(self.action_space, actions)
        for env, action, is_over in zip(self.envs, chosen, over, strict=True):
            assert isinstance(env, Begun)
            if is_over:
                env.begin_reset()
            else:
                env.begin_step(action)
        return super().step(actions)

    def close_extras(self, **kwargs: Any) -> None:
        super().close_extras(**kwargs)
        self._threads.shutdown()


class Slice:
    """N environments in this process."""

    def __init__(self, factory: Factory, seeds: list[int], level_name: str, view: View) -> None:
        one = factory()
        factories: list[Factory] = [lambda: one] + [factory] * (len(seeds) - 1)
        # No copy: the observations are the caller's until the next step only.
        self.spec = gymnasium_spec(one, level_name, view)
        made = _AtOnce if self.spec.goes_on else _WithoutInfo
        self.vector = made(factories, copy=False)
        self.pictures_per_second = pictures_per_second(one, view)
        _, self._environment_actions = agent_actions(one.action_space, level_name)
        self._frames, self._alone = np.zeros(len(seeds), np.int64), np.zeros(len(seeds), bool)
        self.seeds = seeds

    def reset(self) -> Rows:
        """Restarts every environment from its seed."""
        observation, _ = self.vector.reset(seed=list(self.seeds))
        none, reward = np.zeros(len(self.seeds), bool), np.zeros(len(self.seeds))
        return Rows(self._numbers(observation), reward, none, none, self._frames, none)

    def step(self, actions: np.ndarray) -> Rows:
        """Takes one action of the agent in each environment."""
        observation, reward, terminated, truncated, _ = self.vector.step(
            self._environment_actions(np.asarray(actions))
        )
        if self.spec.frames_per_step > 1 and (terminated | truncated).any():
            self._frames = np.array([env.get_wrapper_attr("frames") for env in self.vector.envs])
        if self.spec.goes_on:
            self._alone = np.array([was_left_alone(env) for env in self.vector.envs])
        seen = self._numbers(observation)
        return Rows(seen, reward, terminated, truncated, self._frames, self._alone)

    def cut(self, which: np.ndarray) -> None:
        """Makes the next step a reset of these environments."""
        self.vector.cut(which)

    def _numbers(self, observation: Any) -> np.ndarray:
        return np.asarray(observation).astype(self.spec.observation_space.dtype, copy=False)

    def close(self) -> None:
        """Frees the resources of the environments."""
        self.vector.close()


def pictures_per_second(env: gymnasium.Env, view: View) -> float:
    """Agent steps a second at the speed for human players."""
    return (env.metadata.get("render_fps") or 30) / view.num_action_repeats
