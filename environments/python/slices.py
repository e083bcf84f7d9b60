"""Some environments of a batch, stepped one after another."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv

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


class _WithoutInfo(SyncVectorEnv):
    """Leaves out infos: nobody reads them, and those of environments need not be alike."""

    def _add_info(self, vector_infos: dict, env_info: dict, env_num: int) -> dict:
        return vector_infos


class Slice:
    """N environments in this process."""

    def __init__(self, factory: Factory, seeds: list[int], level_name: str, view: View) -> None:
        # No copy: the observations are the caller's until the next step only.
        self.vector = _WithoutInfo([factory] * len(seeds), copy=False)
        one = self.vector.envs[0]
        self.spec = gymnasium_spec(one, level_name, view)
        self.pictures_per_second = pictures_per_second(one, view)
        _, self._environment_actions = agent_actions(one.action_space, level_name)
        self._frames = np.zeros(len(seeds), np.int64)
        self.seeds = seeds

    def reset(self) -> Rows:
        """Restarts every environment from its seed."""
        observation, _ = self.vector.reset(seed=list(self.seeds))
        over, reward = np.zeros(len(self.seeds), bool), np.zeros(len(self.seeds))
        return Rows(self._numbers(observation), reward, over, over, self._frames)

    def step(self, actions: np.ndarray) -> Rows:
        """Takes one action of the agent in each environment."""
        observation, reward, terminated, truncated, _ = self.vector.step(
            self._environment_actions(np.asarray(actions))
        )
        if self.spec.frames_per_step > 1 and (terminated | truncated).any():
            self._frames = np.array([env.get_wrapper_attr("frames") for env in self.vector.envs])
        return Rows(self._numbers(observation), reward, terminated, truncated, self._frames)

    def _numbers(self, observation: Any) -> np.ndarray:
        return np.asarray(observation).astype(self.spec.observation_space.dtype, copy=False)

    def close(self) -> None:
        """Frees the resources of the environments."""
        self.vector.close()


def pictures_per_second(env: gymnasium.Env, view: View) -> float:
    """Agent steps a second at the speed for human players."""
    return env.metadata.get("render_fps", 30) / view.num_action_repeats
