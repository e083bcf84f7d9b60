"""Catch: nine steps, a reward of 1 or -1 at the end, pictures of ball and paddle."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import environments


def made() -> gymnasium.Env:
    return gymnasium.make("Catch-v0", render_mode="rgb_array")


def test_it_is_an_environment_as_gymnasium_has_them():
    check_env(made().unwrapped, skip_render_check=True)


@pytest.mark.parametrize("catches", [True, False])
def test_a_paddle_that_follows_the_ball_catches_it(catches):
    env = made()
    for seed in range(20):
        picture, _ = env.reset(seed=seed)
        ball = int(np.argmax(picture[0]))
        over, rewards = False, []
        while not over:
            paddle = int(np.argmax(picture[9] == 160))
            target = ball if catches else (9 if ball < 5 else 0)
            picture, reward, over, _, _ = env.step(1 + np.sign(target - paddle))
            rewards.append(reward)
        assert rewards == [0.0] * 8 + [1.0 if catches else -1.0]


def test_agents_see_it_at_their_own_size():
    spec = environments.spec("Catch-v0", width=40, height=44)
    assert spec.image and spec.observation_space.shape == (44, 40, 1)
    assert spec.frame_stack == 1 and spec.action_space == gymnasium.spaces.Discrete(3)
    picture = environments.make("Catch-v0", 1, 0, render=True)
    picture.reset()
    drawn = picture.render(0)
    assert drawn is not None and drawn.shape == (240, 240, 3)
    picture.close()
