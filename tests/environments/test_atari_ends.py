"""Atari: how episodes end where chance seldom leads, on an emulator that plays from a script."""

from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from environments import Episode
from environments.atari import AtariEnvironment
from environments.atari_games import atari_spec
from environments.rules import AtariRules
from environments.view import View

NOOP, FIRE = 0, 1


class Frame(NamedTuple):
    """What the emulator says to one step."""

    reward: int = 0
    game_over: bool = False
    truncated: bool = False
    lives: int = 3


class ScriptedEmulator:
    """One game that goes as written, and starts anew by itself a step after its end."""

    def __init__(self, script: list[Frame]) -> None:
        self.script = iter(script)
        self.ended = False
        self.actions: list[int] = []
        self.forced_resets = 0

    def reset(self, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        self.forced_resets += options is not None
        self.ended = False
        return self.picture(), self.info(Frame())

    def step(self, actions: np.ndarray) -> tuple:
        self.actions.append(int(actions[0]))
        said = Frame() if self.ended else next(self.script)
        self.ended = said.game_over or said.truncated
        over, truncated = np.array([said.game_over]), np.array([said.truncated])
        return self.picture(), np.array([said.reward]), over, truncated, self.info(said)

    def picture(self) -> np.ndarray:
        return np.zeros((1, 1, 84, 84), np.uint8)

    def info(self, said: Frame) -> dict[str, np.ndarray]:
        return {"lives": np.array([said.lives]), "episode_frame_number": np.array([77])}


def made(rom, episodic_life, full_action_set=False):
    """One game whose emulator each test replaces."""
    view = View(full_action_set=full_action_set)
    return AtariEnvironment(
        atari_spec(rom, rom, view),
        rom,
        np.array([1]),
        view,
        AtariRules(episodic_life=episodic_life, max_rewardless_steps=4),
        level_index=0,
        num_threads=1,
    )


@pytest.fixture(scope="module")
def game():
    """One Breakout of which a lost life ends an episode."""
    return made("breakout", episodic_life=True)


def played(game, script, num_steps):
    """The rows after the first one as (reward, terminated, first), and the emulator."""
    game._vector = emulator = ScriptedEmulator(script)
    game.reset()
    game.episodes()
    rows = [game.step(np.array([3])) for _ in range(num_steps)]
    return [tuple(array.item() for array in row[1:]) for row in rows], emulator


def test_what_the_serve_after_a_lost_life_brings_is_the_games_but_not_the_agents(game):
    script = [Frame(1), Frame(lives=2), Frame(5, lives=2), Frame(1, True, lives=0)]
    rows, emulator = played(game, script, num_steps=5)
    assert rows == [(1, False, False), (0, True, False), (0, False, True), (1, True, False)] + [
        (0, False, True)
    ]
    assert emulator.actions == [3, 3, FIRE, 3, 3]
    # Both returns are the game's, of all lives.
    assert game.episodes() == [Episode(0, 7.0, length=3, frames=77, clipped_return=3.0)]


def test_after_a_lost_life_the_next_ball_is_served_also_where_it_ends_no_episode():
    game = made("breakout", episodic_life=False)
    script = [Frame(1), Frame(lives=2), Frame(5, lives=2), Frame(1, True, lives=0)]
    rows, emulator = played(game, script, num_steps=5)
    assert rows == [(1, False, False), (0, False, False), (5, False, False), (1, True, False)] + [
        (0, False, True)
    ]
    assert emulator.actions == [3, 3, FIRE, 3, 3]
    assert game.episodes() == [Episode(0, 7.0, length=4, frames=77, clipped_return=3.0)]


@pytest.mark.parametrize(("episodic_life", "after_the_life"), [(False, 3), (True, NOOP)])
@pytest.mark.parametrize("full_action_set", [False, True])
def test_a_game_without_a_fire_button_is_not_fired(episodic_life, after_the_life, full_action_set):
    game = made("ms_pacman", episodic_life, full_action_set)
    _, emulator = played(game, [Frame(), Frame(lives=2), Frame(lives=2)], num_steps=3)
    assert emulator.actions == [3, 3, after_the_life]


def test_a_life_lost_during_the_serve_is_followed_by_another_serve(game):
    _, emulator = played(game, [Frame(lives=2), Frame(lives=1), Frame(1, lives=1)], num_steps=3)
    assert emulator.actions[:3] == [3, FIRE, FIRE]


def test_a_game_that_ends_with_the_serve_starts_anew_at_once(game):
    rows, _ = played(game, [Frame(lives=2), Frame(2, True, lives=0), Frame(1)], num_steps=4)
    assert rows == [(0, True, False), (0, False, True), (0, False, True), (1, False, False)]
    assert game.episodes() == [Episode(0, 2.0, 1, 77, 0, 1.0)]


def test_no_lives_left_is_no_end_before_the_game_is_over(game):
    script = [Frame(lives=1), Frame(lives=1), Frame(lives=0), Frame(1, True, lives=0)]
    rows, _ = played(game, script, num_steps=4)
    assert rows == [(0, True, False), (0, False, True), (0, False, False), (1, True, False)]


def test_a_life_lost_during_the_serve_goes_with_the_serve(game):
    rows, _ = played(game, [Frame(lives=2), Frame(lives=1), Frame(1, lives=1)], num_steps=3)
    assert rows == [(0, True, False), (0, False, True), (1, False, False)]


def test_what_the_emulator_plays_past_a_cut_off_is_undone(game):
    script = [Frame()] * 4 + [Frame(9, True, lives=0), Frame(1, True, lives=0)]
    rows, emulator = played(game, script, num_steps=6)
    assert rows == [(0, False, False)] * 4 + [(0, False, True), (1, True, False)]
    assert emulator.forced_resets == 1
    assert game.episodes() == [Episode(0, 0.0, 4, 77), Episode(0, 1.0, 1, 77, 0, 1.0)]


def test_the_serve_is_no_step_without_reward(game):
    rows, _ = played(game, [Frame(lives=2)] * 6, num_steps=6)
    assert [first for _, _, first in rows] == [False, True, False, False, False, True]


def test_a_life_lost_with_the_last_step_before_the_cut_off_is_terminated(game):
    rows, _ = played(game, [Frame()] * 3 + [Frame(lives=2)] + [Frame()] * 2, num_steps=6)
    assert rows[3:] == [(0, True, False), (0, False, True), (0, False, False)]


FRAMES = st.builds(
    Frame,
    reward=st.sampled_from([0, 0, 0, 1, -2]),
    game_over=st.sampled_from([False, False, False, True]),
    truncated=st.sampled_from([False, False, False, True]),
    lives=st.integers(0, 3),
)


@hypothesis.given(script=st.lists(FRAMES, min_size=30, max_size=30))
@hypothesis.settings(max_examples=50)
def test_whatever_happens_a_first_row_is_no_experience_and_follows_every_end(game, script):
    rows, _ = played(game, script, num_steps=30)
    for reward, terminated, first in rows:
        assert not first or (reward == 0 and not terminated)
    for (_, terminated, _), (_, _, first) in zip(rows, rows[1:], strict=False):
        assert first or not terminated
    agent_steps = sum(not first for _, _, first in rows)
    told = game.episodes()
    assert agent_steps - sum(episode.length for episode in told) == game._tally._lengths[0]
