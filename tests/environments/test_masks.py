"""Masks of actions: where they come from, and what is refused."""

from typing import Any

import gymnasium
import numpy as np
import pytest

import environments
from user_error import UserError

HERE = "tests.environments.test_masks"


class Turns(gymnasium.Env):
    """Only the action of the step's number, modulo 3, is allowed; another ends the episode."""

    observation_space: Any = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), self.info()

    def step(self, action: Any) -> Any:
        allowed = action == self.count % 3
        self.count += 1
        over = not allowed or self.count == 30
        return np.zeros(1, np.float32), float(allowed), over, False, self.info()

    def info(self) -> dict[str, Any]:
        """The mask for the next action."""
        return {"action_mask": np.arange(3) == self.count % 3}


class Strict(Turns):
    """The same, but what is not allowed cannot be done, and infos differ from step to step."""

    def step(self, action: Any) -> Any:
        if action != self.count % 3:
            raise ValueError(f"{action} is not allowed")
        return super().step(action)

    def info(self) -> dict[str, Any]:
        who = None if self.count % 2 else self.count
        return {**super().info(), "who": who, "all": np.arange(self.count % 5)}


class Silent(Turns):
    """The same without masks."""

    def info(self) -> dict[str, Any]:
        return {}


class Chooses(Turns):
    """The same with two choices at once."""

    action_space = gymnasium.spaces.MultiDiscrete([2, 2])


@pytest.mark.parametrize("processes", [0, 1])
def test_a_mask_follows_the_observation(processes):
    name = f"{HERE}:Turns"
    assert environments.spec(name, action_masks=True).masked
    env = environments.make(name, 2, 0, action_masks=True, env_processes=processes)
    assert env.spec.observation_space.shape == (4,)
    np.testing.assert_array_equal(env.reset().observation, [[0, 1, 0, 0]] * 2)
    np.testing.assert_array_equal(env.step(np.array([0, 0])).observation, [[0, 0, 1, 0]] * 2)
    env.close()


@pytest.mark.parametrize("processes", [None, 0])
def test_nothing_is_played_that_a_mask_excludes(processes, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    env = environments.make(f"{HERE}:Strict", 3, 0, action_masks=True, env_processes=processes)
    actions = environments.RandomActions(env.spec, 0)
    step, episodes = env.reset(), 0
    for _ in range(70):
        step = env.step(actions.draw(3, seen=step.observation))
        episodes += len(env.episodes())
    env.close()
    assert episodes == 6


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("Silent", "has 3 actions, so info.'action_mask'. must have 3 entries .* it is missing"),
        ("Chooses", "needs actions that can be counted"),
    ],
)
def test_what_has_no_masks_is_refused(level, message):
    with pytest.raises(UserError, match=message):
        env = environments.make(f"{HERE}:{level}", 1, 0, action_masks=True)
        env.reset()


def test_masks_of_pictures_are_refused():
    with pytest.raises(UserError, match="needs observations that are numbers"):
        environments.spec("tests.trainer.levels:Pictures", action_masks=True)


@pytest.mark.parametrize("level", ["PongNoFrameskip-v4", "vnc:Catch-v0"])
def test_masks_that_a_level_cannot_have_are_refused(level):
    with pytest.raises(UserError, match="action_masks.* is"):
        environments.spec(level, action_masks=True)
