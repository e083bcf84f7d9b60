"""Atari: the standard preprocessing, against a replay in plain Gymnasium."""

import dataclasses
from typing import Any

import cv2
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

import environments
from environments.atari import AtariEnvironment
from environments.atari_games import atari_spec
from environments.rules import AtariRules
from environments.view import View
from tests.environments.playing import assert_same_rows, copied, play


def atari(rom: str, num_envs: int = 1, render: bool = False, **switches: Any) -> AtariEnvironment:
    """One game straight from the constructor, so that a test can shorten what takes long.

    Its episodes are whole games, unless switches say otherwise.
    """
    view = View()
    return AtariEnvironment(
        atari_spec(rom, rom, view),
        rom,
        np.arange(num_envs) + 7,
        view,
        AtariRules(**{"episodic_life": False} | switches),
        level_index=0,
        num_threads=1,
        render=render,
    )


class PlainGymnasium:
    """The same game by hand: one emulator frame at a time, without any wrapper."""

    def __init__(self, level_name, view=None):
        self.view = view or View()
        self.env: Any = gymnasium.make(level_name, disable_env_checker=True).unwrapped
        self.env.reset(seed=0)
        self.raw_return = 0.0
        self.over = self.life_lost = False

    def frame(self, action):
        _, reward, self.over, _, _ = self.env.step(action)
        self.raw_return += reward
        emulator = self.env.ale
        return emulator.getScreenRGB() if self.view.colour else emulator.getScreenGrayscale()

    def fire(self):
        return self.small(self.frame(self.env.get_action_meanings().index("FIRE")))

    def step(self, action):
        last_two: list[np.ndarray] = []
        lives = self.env.ale.lives()
        if self.life_lost:
            action = self.env.get_action_meanings().index("FIRE")
        for _ in range(self.view.frame_skip):
            last_two = [*last_two[-1:], self.frame(action)]
            if self.over:
                break
        self.life_lost = self.env.ale.lives() < lives
        return self.small(np.maximum(*last_two) if len(last_two) == 2 else last_two[0])

    def small(self, screen):
        height, width = self.view.height, self.view.width
        if self.view.crop:
            top, left, rows, columns = map(int, self.view.crop.split(","))
            screen = screen[top : top + rows, left : left + columns]
        small = cv2.resize(screen, (width, height), interpolation=cv2.INTER_AREA)
        return small.reshape(height, width, -1)


@pytest.mark.parametrize(
    ("rom", "level_name"), [("pong", "PongNoFrameskip-v4"), ("breakout", "BreakoutNoFrameskip-v4")]
)
def test_frames_and_raw_return_are_those_of_the_plain_environment(rom, level_name):
    rows, actions = play(env := atari(rom, noop_max=0), num_steps=1_000)
    over = int(np.flatnonzero(rows.terminated[:, 0])[0])
    (episode, *_) = env.episodes()
    plain = PlainGymnasium(level_name)
    assert_same_picture(plain.fire(), rows.observation[0, 0])
    for t in range(over - 1):
        assert_same_picture(plain.step(actions[t, 0]), rows.observation[t + 1, 0])
    plain.step(actions[over - 1, 0])
    assert plain.over
    assert episode.raw_return == plain.raw_return == rows.reward[: over + 1].sum()
    assert episode.length == over
    assert episode.frames == plain.env.ale.getEpisodeFrameNumber()


@pytest.mark.parametrize(
    "view",
    [
        View(colour=True, height=105, width=80),
        View(crop="34,0,160,160", height=42, width=42),
        View(crop="34,10,150,140", colour=True, height=30, width=20),
        View(crop="0,0,210,160", height=210, width=160),
        View(frame_skip=1),
        View(frame_skip=3, colour=True),
    ],
)
def test_colour_crop_and_frame_skip_are_those_of_the_plain_environment(view):
    env = environments.make(
        "BreakoutNoFrameskip-v4", 2, seed=7, **{**dataclasses.asdict(view), "frame_stack": 2}
    )
    spec = env.spec
    assert spec.observation_space.shape == (view.height, view.width, 3 if view.colour else 1)
    assert (spec.frame_stack, spec.frames_per_step) == (2, view.frame_skip)
    env = AtariEnvironment(
        spec, "breakout", np.array([7, 8]), view, AtariRules(noop_max=0, episodic_life=False),
        level_index=0, num_threads=1,
    )  # fmt: skip
    rows, actions = play(env, num_steps=100)
    assert rows.observation.shape == (101, 2, *spec.observation_space.shape)
    plain = PlainGymnasium("BreakoutNoFrameskip-v4", view)
    assert_same_picture(plain.fire(), rows.observation[0, 1])
    for t in range(100):
        assert_same_picture(plain.step(actions[t, 1]), rows.observation[t + 1, 1])
    picture = env.render(1)
    assert picture.shape == (view.height, view.width, 3)


def assert_same_picture(wanted, got):
    # Two builds of OpenCV may round a resized pixel differently.
    np.testing.assert_allclose(got.astype(int), wanted.astype(int), atol=1)


def test_an_episode_ends_and_the_next_row_is_a_first_one():
    rows, _ = play(env := atari("breakout", num_envs=2), num_steps=500)
    assert rows.observation.shape == (501, 2, 84, 84, 1)
    assert rows.observation.dtype == np.uint8
    assert rows.reward.dtype == np.float32
    assert rows.terminated.dtype == rows.first.dtype == bool
    assert rows.first[0].all()
    assert rows.terminated.any()
    np.testing.assert_array_equal(rows.terminated[:-1], rows.first[1:])
    assert not rows.reward[rows.first].any()
    assert not rows.terminated[rows.first].any()
    assert len(env.episodes()) == rows.terminated.sum()
    assert env.episodes() == []


def test_up_to_thirty_frames_pass_at_a_reset_and_not_the_same_number_each_time():
    play(env := atari("breakout", num_envs=2), num_steps=1_000)
    # What the steps did not spend was spent at the reset; the last step may end early.
    at_reset = [episode.frames - 4 * episode.length for episode in env.episodes()]
    assert -3 <= min(at_reset) < max(at_reset) <= 30
    assert len(set(at_reset)) > 2


def test_too_many_frames_truncate():
    rows, _ = play(env := atari("pong", max_episode_frames=200), num_steps=110)
    assert np.flatnonzero(rows.first[:, 0]).tolist() == [0, 51, 102]
    assert not rows.terminated.any()
    assert [episode.length for episode in env.episodes()] == [50, 50]


def test_a_thousand_steps_without_reward_truncate():
    env = atari("montezuma_revenge", num_envs=1)
    env.reset()
    wait = np.zeros(1, int)
    rows = [copied(env.step(wait)) for _ in range(1_002)]
    assert np.flatnonzero([row.first[0] for row in rows]).tolist() == [1_000]
    assert not any(row.terminated[0] for row in rows)
    (episode,) = env.episodes()
    assert (episode.raw_return, episode.length) == (0.0, 1_000)


def test_each_limit_of_an_episode_is_given_or_there_is_none():
    def firsts(**limits):
        env = environments.make("PongNoFrameskip-v4", 1, seed=0, **limits)
        env.reset()
        return [t for t in range(1, 130) if env.step(np.zeros(1, int)).first[0]]

    assert firsts(max_episode_frames=200) == [51, 102]
    assert firsts(max_rewardless_steps=20)[:2] == [21, 42]
    assert firsts(max_episode_frames=0, max_rewardless_steps=0) == []


def test_a_cut_off_game_starts_anew_and_its_neighbours_play_on():
    cut, whole = (
        play(atari("pong", num_envs=2, max_rewardless_steps=limit), num_steps=150)[0]
        for limit in (60, 10_000)
    )
    cut_at = np.flatnonzero(cut.first[1:, 0])[0] + 1
    assert not cut.terminated.any()
    # A new game shows the score 0 : 0 again, as the first picture did.
    score = np.s_[:12, :, 0]
    np.testing.assert_array_equal(cut.observation[cut_at, 0][score], cut.observation[0, 0][score])
    assert not cut.first[1:, 1].any()
    np.testing.assert_array_equal(cut.observation[:, 1], whole.observation[:, 1])


def test_reward_puts_the_cut_off_off():
    rows, _ = play(atari("pong", max_rewardless_steps=60), num_steps=200)
    firsts, rewards = np.flatnonzero(rows.first[:, 0]), np.flatnonzero(rows.reward[:, 0])
    for end in firsts[1:] - 1:
        last_event = max(start for start in [*firsts, *rewards] if start < end)
        assert end - last_event == 60


def test_a_lost_life_ends_an_episode_for_the_agent_but_not_the_game():
    lives, _ = play(by_life := atari("breakout", episodic_life=True), num_steps=600)
    games, _ = play(by_game := atari("breakout"), num_steps=600)
    np.testing.assert_array_equal(lives.terminated[:-1], lives.first[1:])
    over = len(by_life.episodes())
    assert over >= 1
    assert lives.terminated.sum() >= 5 * over
    assert games.terminated.sum() == len(by_game.episodes())


def test_the_raw_return_of_a_game_counts_all_its_lives():
    rows, actions = play(
        env := atari("breakout", episodic_life=True, noop_max=0), num_steps=400, seed=1
    )
    episode = env.episodes()[0]
    plain = PlainGymnasium("BreakoutNoFrameskip-v4")
    plain.fire()
    t = 0
    while not plain.over:
        action = 1 if rows.first[t + 1, 0] else actions[t, 0]  # the next ball is served
        plain.step(action)
        t += 1
    assert episode.raw_return == plain.raw_return > 0
    assert rows.terminated[: t + 1].sum() == 5
    assert episode.length == t - 4  # four serves were not the agent's


@pytest.mark.parametrize("episodic_life", [False, True])
@pytest.mark.parametrize("full_action_set", [False, True])
def test_a_policy_that_never_fires_plays_a_game_to_its_end(episodic_life, full_action_set):
    env = environments.make(
        "BreakoutNoFrameskip-v4",
        1,
        seed=3,
        episodic_life=episodic_life,
        full_action_set=full_action_set,
        max_rewardless_steps=0,
    )
    env.reset()
    right = np.array([(env.spec.action_meanings or ()).index("RIGHT")])
    for _ in range(1_200):
        env.step(right)
    assert env.episodes()


def test_a_game_without_lives_plays_the_same_with_episodic_life():
    assert_same_rows(
        play(atari("freeway", episodic_life=True), 100)[0], play(atari("freeway"), 100)[0]
    )


def test_the_same_seed_gives_the_same_stream_however_many_threads():
    level: dict[str, Any] = {
        "level_name": "BreakoutNoFrameskip-v4",
        "num_envs": 3,
        "sticky_actions": 0.25,
    }
    one = play(environments.make(**level, seed=3, num_threads=1), 150)[0]
    two = play(environments.make(**level, seed=3, num_threads=2), 150)[0]
    other = play(environments.make(**level, seed=4), 150)[0]
    assert_same_rows(one, two)
    assert (one.observation != other.observation).any()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert (one.observation[:, i] != one.observation[:, j]).any()


def test_a_second_reset_starts_the_same_stream_again():
    env = atari("pong", num_envs=2)
    assert_same_rows(play(env, 40)[0], play(env, 40)[0])


def test_action_repeats_width_and_height():
    env = environments.make("PongNoFrameskip-v4", 1, 0, num_action_repeats=2, width=64, height=48)
    assert env.spec.frames_per_step == 8
    assert env.reset().observation.shape == (1, 48, 64, 1)
    env.step(np.zeros(1, int))
    picture = env.render(0)
    assert picture is not None and picture.shape == (48, 64, 3)


def test_the_full_action_set_has_all_eighteen_actions():
    assert environments.spec("PongNoFrameskip-v4").action_space == Discrete(6)
    env = environments.make("PongNoFrameskip-v4", 1, 0, full_action_set=True)
    assert env.spec.action_space == Discrete(18)
    env.reset()
    env.step(np.array([17]))
