"""Gymnasium's environments and one's own, against the plain ones."""

import contextlib
from typing import Any

import gymnasium
import numpy as np
import pytest

import environments
from tests.environments.playing import assert_same_rows, copied, play

REPLAYED = (
    "CartPole-v1",
    "Pendulum-v1",
    "LunarLander-v3",
    "LunarLanderContinuous-v3",
    "Hopper-v5",
    "Taxi-v4",
)


def first_seed(env):
    return env._stepped.seeds[0]


@pytest.mark.parametrize("level_name", REPLAYED)
def test_rows_are_those_of_the_plain_environment(level_name):
    env = environments.make(level_name, 2, seed=5)
    rows, actions = play(env, num_steps=230)
    plain: Any = gymnasium.make(level_name)
    observation, _ = plain.reset(seed=first_seed(env))
    terminated = truncated = False
    for t in range(230):
        wanted: Any = gymnasium.spaces.flatten(plain.observation_space, observation)
        np.testing.assert_allclose(rows.observation[t, 0], wanted, rtol=1e-6, atol=1e-6)
        over = terminated or truncated
        if over:
            observation, _ = plain.reset()
            reward, terminated, truncated = 0.0, False, False
        else:
            observation, reward, terminated, truncated, _ = plain.step(actions[t, 0])
        assert rows.first[t + 1, 0] == over
        assert rows.terminated[t + 1, 0] == terminated
        assert rows.reward[t + 1, 0] == pytest.approx(reward)


@pytest.mark.parametrize("level_name", [*REPLAYED, "CarRacing-v3", "FrozenLake-v1"])
def test_rows_have_the_shape_and_type_that_the_specification_says(level_name):
    spec = environments.spec(level_name)
    env = environments.make(level_name, 2, seed=1)
    assert env.spec == spec
    assert (spec.frame_stack, spec.frames_per_step, spec.action_meanings) == (1, 1, None)
    rows, _ = play(env, num_steps=5)
    assert rows.observation.shape == (6, 2, *spec.observation_space.shape)
    assert rows.observation.dtype == spec.observation_space.dtype
    assert rows.reward.dtype == np.float32
    assert rows.terminated.dtype == rows.first.dtype == bool
    assert rows.first[0].all() and not rows.first[1:].any()


def test_every_episode_is_told_once_with_its_return_and_length():
    env = environments.make("CartPole-v1", 3, seed=1, level_index=4)
    rows, _ = play(env, num_steps=300)
    episodes = env.episodes()
    assert len(episodes) == rows.terminated.sum() > 10
    assert all(episode.raw_return == episode.length == episode.frames for episode in episodes)
    assert {episode.level for episode in episodes} == {4}
    assert env.episodes() == []


def test_a_time_limit_truncates():
    env = environments.make("CartPole-v1", 1, seed=0)
    row = env.reset()
    rows = [copied(row)]
    for _ in range(502):
        _, _, angle, spin = row.observation[0]
        row = env.step(np.array([int(angle + 0.5 * spin > 0)]))  # keeps the pole up
        rows.append(copied(row))
    assert np.flatnonzero([row.first[0] for row in rows]).tolist() == [0, 501]
    assert not any(row.terminated[0] for row in rows)
    assert env.episodes() == [environments.Episode(0, 500.0, 500, 500, 0, 500.0)]


def test_repeated_actions_sum_their_rewards_and_stop_at_the_end():
    env = environments.make("CartPole-v1", 1, seed=3, num_action_repeats=4)
    assert env.spec.frames_per_step == 4
    rows, actions = play(env, num_steps=40)
    (episode, *_) = env.episodes()
    plain = gymnasium.make("CartPole-v1")
    plain.reset(seed=first_seed(env))
    over, frames = False, 0
    while not over:
        *_, over, _, _ = plain.step(actions[frames // 4, 0])
        frames += 1
    assert (episode.frames, episode.raw_return) == (frames, frames)
    assert episode.length == -(-frames // 4)
    assert rows.reward[1, 0] == 4.0


def test_the_same_seed_gives_the_same_stream_and_another_seed_another():
    one, two, other = (
        play(environments.make("LunarLander-v3", 2, seed=seed), 100)[0] for seed in (1, 1, 2)
    )
    assert_same_rows(one, two)
    assert (one.observation != other.observation).any()
    assert (one.observation[0, 0] != one.observation[0, 1]).any()


def test_images_are_resized_and_float64_becomes_float32():
    spec = environments.spec("CarRacing-v3", width=60, height=40)
    assert spec.image
    assert spec.observation_space == gymnasium.spaces.Box(0, 255, (40, 60, 3), np.uint8)
    spec = environments.spec("HalfCheetah-v5")
    assert not spec.image
    assert spec.observation_space.dtype == np.float32


def test_pictures_only_where_they_were_asked_for():
    env = environments.make("FrozenLake-v1", 1, seed=0, render=True)
    env.reset()
    picture = env.render(0)
    assert picture is not None and picture.dtype == np.uint8 and picture.shape[2] == 3
    silent = environments.make("CartPole-v1", 1, seed=0)
    silent.reset()
    assert silent.render(0) is None


OWN = """
import gymnasium
import numpy as np

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict(
        place=gymnasium.spaces.Discrete(3), light=gymnasium.spaces.Box(0, 1, (2,)))
    action_space = gymnasium.spaces.Discrete(2, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.seen(), {}

    def seen(self):
        return {"place": self.place, "light": [0.25, 0.75]}

    def step(self, action):
        assert action in (5, 6)
        self.place += int(action == 6)
        return self.seen(), 2.5, self.place == 2, False, {}

class Drawn(Corridor):
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, length=3, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        return np.zeros((4, 5, 3), np.uint8)

class Heir(Drawn):
    def __init__(self, **options):
        super().__init__(**options)

def make():
    return Corridor()

def make_without(**options):
    return Corridor(**options)

def make_number():
    return 3

def make_for(whom):
    return Corridor()

def make_bare():
    return gymnasium.Env()

number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "my_corridor.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("own")
def test_ones_own_environment_is_given_as_module_and_function():
    env = environments.make("my_corridor:make", 2, seed=0)
    assert env.spec.action_space == gymnasium.spaces.Discrete(2)
    assert env.reset().observation.tolist() == [[1, 0, 0, 0.25, 0.75]] * 2
    row = env.step(np.array([1, 0]))
    assert row.observation.tolist() == [[0, 1, 0, 0.25, 0.75], [1, 0, 0, 0.25, 0.75]]
    row = env.step(np.array([1, 0]))
    assert row.terminated.tolist() == [True, False]
    assert env.episodes() == [environments.Episode(0, 5.0, 2, 2, 0, 2.0)]
    row = env.step(np.array([1, 1]))
    assert row.first.tolist() == [True, False]
    assert row.reward.tolist() == [0.0, 2.5]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("level_name", "told"),
    [
        ("my_corridor:mke", "my_corridor has no 'mke'. Did you mean make"),
        ("my_corridors:make", "there is no module 'my_corridors'"),
        ("my_corridor:number", "is a int, expected a function that returns a gymnasium.Env"),
        ("my_corridor:make_number", "returned a int, expected a gymnasium.Env"),
        ("my_corridor:make_for", "cannot be called without arguments: missing"),
        ("my_corridor:make_bare", "an environment without observation_space"),
    ],
)
def test_what_is_wrong_with_ones_own_environment_is_told(level_name, told, one_line):
    one_line(lambda: environments.spec(level_name), level_name, told)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "kwargs", "is_drawn"),
    [
        ("Drawn", "", True),
        ("Heir", "", True),
        ("Heir", "length=4", True),
        ("make", "", False),
        ("make_without", "", False),
    ],
)
def test_ones_own_environment_is_drawn_if_it_can_be(name, kwargs, is_drawn):
    env = environments.make(f"my_corridor:{name}", 1, seed=0, render=True, env_kwargs=kwargs)
    env.reset()
    assert (env.render(0) is not None) == is_drawn


@pytest.mark.parametrize(
    ("level_name", "processes"), [("CartPole-v1", 0), ("CartPole-v1", 2), ("breakout", 0)]
)
def test_the_step_after_a_cut_resets_and_the_episode_is_dropped(level_name, processes):
    env = environments.make(level_name, 2, seed=3, env_processes=processes)
    with contextlib.closing(env):
        env.reset()
        action = np.ones(2, int)
        for _ in range(3):
            env.step(action)
        env.cut(np.array([True, False]))
        assert env.step(action).first.tolist() == [True, False]
        assert env.episodes() == []
        ended: dict[int, int] = {}
        steps = 0
        while len(ended) < 2:
            env.step(action)
            steps += 1
            for episode in env.episodes():
                ended.setdefault(episode.environment, episode.length - steps)
        assert ended[1] - ended[0] == 4  # lost lives are no steps of either


def test_an_error_in_the_module_of_ones_own_environment_is_raised_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "my_failing_game.py").write_text("raise ValueError('low')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="^low$"):
        environments.spec("my_failing_game:make")
