"""Games in which several agents play: each sees, moves and counts its own bodies only."""

from typing import Any

import numpy as np

import environments
from environments import OfOneAgent
from environments.step import EnvironmentStep
from tests.environments.bodies.game import BODIES, LENGTH

SHIFT = "pettingzoo:tests.environments.bodies.game"
UNLIKE = "tests.environments.bodies.game:unlike"
SHARES = [(0, 3), (2, 1)]  # early and never; late and whole
STEPS = 2 * (LENGTH + 1)


def of(step: EnvironmentStep, columns: list[int]) -> list[Any]:
    return [array[columns].tolist() for array in step]


def test_agents_have_the_rows_and_episodes_that_one_agent_has_of_the_same_bodies():
    options: dict[str, Any] = {"env_kwargs": "pay_actions=true"}
    whole = environments.make(SHIFT, 8, seed=1, **options)
    shared = environments.make_shared(SHIFT, 8, 1, SHARES, **options)
    columns = [[game * 4 + body for game in range(2) for body in share] for share in SHARES]
    assert [part.num_envs for part in shared.parts] == [4, 4]
    random = np.random.default_rng(0)
    one, parts = whole.reset(), shared.reset()
    for _ in range(STEPS):
        assert [of(part, [0, 1, 2, 3]) for part in parts] == [of(one, mine) for mine in columns]
        actions = random.integers(3, size=8)
        one, parts = whole.step(actions), shared.step([actions[mine] for mine in columns])
    ended = whole.episodes()
    for mine, part in zip(columns, shared.parts, strict=True):
        own = [one._replace(environment=mine.index(one.environment))
               for one in ended if one.environment in mine]  # fmt: skip
        assert sorted(part.episodes()) == sorted(own) != []
    shared.close()
    whole.close()


def test_specs_are_those_of_the_whole_game_with_the_agents_own_bodies():
    whole = environments.spec(SHIFT, tell_bodies="mark")
    specs = environments.shared_specs(SHIFT, SHARES, tell_bodies="mark")
    assert [spec.bodies for spec in specs] == [("early", "never"), ("late", "whole")]
    assert all(spec.observation_space == whole.observation_space for spec in specs)
    assert environments.body_names(SHIFT) == BODIES
    assert environments.body_names("CartPole-v1") == ()


def test_agents_may_see_unlike_things_in_one_game():
    shares = [(0,), (1,), (2,), (3,)]
    specs = environments.shared_specs(SHIFT, shares, wrappers=UNLIKE)
    assert [spec.observation_space.shape for spec in specs] == [(2,), (3,), (2,), (3,)]


def test_a_level_of_one_body_is_played_by_one_agent():
    shared = environments.make_shared("CartPole-v1", 3, 1, [(0,)])
    assert isinstance(shared, OfOneAgent)
    [step] = shared.reset()
    [step] = shared.step([np.zeros(3, np.int32)])
    assert step.reward.tolist() == [1, 1, 1]
    shared.close()
