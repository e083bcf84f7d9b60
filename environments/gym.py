"""Gymnasium environments, your own included, run one after another in this process."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv

from environments.mujoco_pictures import MujocoPictures, is_mujoco
from environments.spaces import agent_actions, is_image, numbers, with_plain_observations
from environments.step import EnvironmentSpec, EnvironmentStep, Episode, VectorEnvironment
from environments.tally import Tally


class ActionRepeat(gymnasium.Wrapper):
    """One action lasts several simulator steps, but not past an episode's end."""

    def __init__(self, env: gymnasium.Env, repeats: int) -> None:
        super().__init__(env)
        self._repeats = repeats
        self.frames = 0  # simulator steps of the running episode

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.frames = 0
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        total = 0.0
        for _ in range(self._repeats):
            observation, reward, terminated, truncated, info = self.env.step(action)
            self.frames += 1
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


def plain(
    env: gymnasium.Env, level_name: str, *, num_action_repeats: int, width: int, height: int
) -> gymnasium.Env:
    """The environment with repeated actions and with observations that an agent can read."""
    if num_action_repeats > 1:
        env = ActionRepeat(env, num_action_repeats)
    return with_plain_observations(env, level_name, width, height)


def gymnasium_spec(
    env: gymnasium.Env, level_name: str, *, num_action_repeats: int
) -> EnvironmentSpec:
    """The specification of an environment that went through `plain`."""
    action_space, _ = agent_actions(env.action_space, level_name)
    return EnvironmentSpec(
        level_name=level_name,
        observation_space=numbers(env.observation_space),
        action_space=action_space,
        frame_stack=1,
        frames_per_step=num_action_repeats,
        image=is_image(env.observation_space),
    )


class GymnasiumEnvironment(VectorEnvironment):
    """N Gymnasium environments, each of which went through `plain`."""

    def __init__(
        self,
        factory: Callable[[], gymnasium.Env],
        seeds: np.ndarray,
        level_name: str,
        *,
        level_index: int,
        num_action_repeats: int,
    ) -> None:
        self.num_envs = len(seeds)
        # No copy: the observations are the caller's until the next step only.
        self._vector = SyncVectorEnv([factory] * self.num_envs, copy=False)
        one = self._vector.envs[0]
        self.spec = gymnasium_spec(one, level_name, num_action_repeats=num_action_repeats)
        _, self._environment_actions = agent_actions(one.action_space, level_name)
        self.pictures_per_second = one.metadata.get("render_fps", 30) / num_action_repeats
        self._seeds = [int(seed) for seed in seeds]
        self._tally = Tally(self.num_envs, level_index)
        self._over = np.zeros(self.num_envs, bool)
        self._mujoco_pictures: MujocoPictures | None = None

    def reset(self) -> EnvironmentStep:
        observation, _ = self._vector.reset(seed=list(self._seeds))
        self._tally.drop()
        self._over = np.zeros(self.num_envs, bool)
        reward = np.zeros(self.num_envs, np.float32)
        return EnvironmentStep(self._numbers(observation), reward, self._over, ~self._over)

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        observation, reward, terminated, truncated, _ = self._vector.step(
            self._environment_actions(np.asarray(actions))
        )
        first = self._over
        self._over = terminated | truncated
        self._tally.add(reward, ~first)
        if self._over.any():
            self._tally.finish(self._over, self._frames())
        return EnvironmentStep(
            self._numbers(observation), reward.astype(np.float32), terminated.copy(), first
        )

    def _frames(self) -> np.ndarray | None:
        if self.spec.frames_per_step == 1:
            return None
        return np.array([env.get_wrapper_attr("frames") for env in self._vector.envs])

    def _numbers(self, observation: Any) -> np.ndarray:
        return np.asarray(observation).astype(self.spec.observation_space.dtype, copy=False)

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def render(self, index: int) -> np.ndarray | None:
        if self._vector.render_mode is None:
            return None
        env = self._vector.envs[index]
        if is_mujoco(env):
            self._mujoco_pictures = self._mujoco_pictures or MujocoPictures(env)
            return self._mujoco_pictures.picture(env)
        picture = env.render()
        return picture if isinstance(picture, np.ndarray) else None

    def close(self) -> None:
        self._vector.close()
        if self._mujoco_pictures:
            self._mujoco_pictures.close()
