"""Gymnasium environments as agents need them: repeated actions, pictures or vectors."""

from typing import Any

import gymnasium

from environments.python.at_once import goes_on_by_itself
from environments.python.masks import MaskInObservation
from environments.python.named_keys import named_keys
from environments.spaces import agent_actions, is_image, numbers, with_plain_observations
from environments.step import EnvironmentSpec
from environments.view import View


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


def plain(env: gymnasium.Env, level_name: str, view: View) -> gymnasium.Env:
    """The environment with repeated actions and with observations that an agent can read."""
    if view.num_action_repeats > 1:
        env = ActionRepeat(env, view.num_action_repeats)
    env = with_plain_observations(env, level_name, view)
    return MaskInObservation(env, level_name) if view.action_masks else env


def gymnasium_spec(env: gymnasium.Env, level_name: str, view: View) -> EnvironmentSpec:
    """The specification of an environment that went through `plain`."""
    action_space, _ = agent_actions(env.action_space, level_name)
    return EnvironmentSpec(
        level_name=level_name,
        observation_space=numbers(env.observation_space),
        action_space=action_space,
        frame_stack=view.frame_stack or getattr(env.unwrapped, "usual_frame_stack", 1),
        frames_per_step=view.num_action_repeats,
        image=is_image(env.observation_space),
        masked=view.action_masks,
        keys=tuple(one.keys for one in named_keys(env)),
        goes_on=goes_on_by_itself(env),
    )
