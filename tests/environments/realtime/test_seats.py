"""Seats: what an environment makes of the messages and pictures of its remote."""

import collections

import pytest

from environments.realtime import messages
from environments.realtime.link import Link
from environments.realtime.messages import Message
from environments.realtime.seat import Seat

PERIOD_MS = 100.0


class Told(Link):
    """A link that has received these messages."""

    def __init__(self):
        self.described, self.first_episode = {"fps": 10}, "old"
        self.received, self.pressed = 0.0, None
        self._messages = collections.deque()
        self.asked: list[str] = []

    def take(self):
        seen = {"picture": None, "drawn": None, "received": self.received, "pressed": self.pressed}
        return type("Snapshot", (), seen)()

    def ask_reset(self, episode):
        self.asked.append(episode)

    def tell(self, method, body, episode):
        self._messages.append((0.0, Message(method, body, episode)))

    def begin(self, episode, state=messages.RUNNING):
        self.tell(messages.DESCRIBE, {"env_state": state}, episode)

    def reward(self, episode, reward, done=False):
        self.tell(messages.REWARD, {"reward": reward, "done": done}, episode)

    def play(self, episode):
        """An episode that nobody has asked for."""
        self.begin(episode)
        self.reward(episode, 1.0)
        self.reward(episode, 2.0, done=True)
        self.begin(episode, messages.RESETTING)


@pytest.fixture
def seated():
    seat, link = Seat(PERIOD_MS), Told()
    seat.offer(link)
    assert seat.row(0.0).spoilt and link.asked == ["old"]
    return seat, link


def test_rewards_between_ticks_are_summed_and_an_end_ends_them(seated):
    seat, link = seated
    assert seat.row(0.0).first
    link.begin("a")
    row = seat.row(0.0)
    assert row.first and row.playing and not row.spoilt
    link.reward("a", 1.0)
    link.reward("a", 2.0)
    row = seat.row(0.0)
    assert (row.reward, row.rewards) == (3.0, 2)
    link.reward("a", 4.0, done=True)
    link.begin("b")
    link.reward("b", 8.0)
    row = seat.row(0.0)
    assert (row.reward, row.over, row.terminated, row.first) == (4.0, True, True, False)
    assert row.rewards == 1
    assert link.asked == ["old", "a"]
    assert seat.row(0.0)[1:6] == (True, 0.0, False, False, True)
    assert seat.row(0.0).reward == 8.0


def test_the_first_episode_of_a_remote_is_not_asked_to_end():
    seat, link = Seat(PERIOD_MS), Told()
    link.first_episode = ""  # it is still beginning
    seat.offer(link)
    seat.row(0.0)
    link.begin("a")
    assert seat.row(0.0).playing and link.asked == []


def test_a_new_episode_means_that_the_old_one_is_done(seated):
    seat, link = seated
    link.begin("a")
    seat.row(0.0)
    link.reward("a", 1.0)
    link.begin("b")
    row = seat.row(0.0)
    assert (row.reward, row.over, row.terminated) == (1.0, True, False)
    assert seat.row(0.0).first


def test_what_a_remote_plays_while_nobody_looks_is_nobodys(seated):
    seat, link = seated
    link.begin("a")
    assert seat.row(0.0).playing
    link.reward("a", 1.0, done=True)
    link.play("b")
    link.play("c")
    link.begin("d")
    link.reward("d", 4.0)
    link.received = 5_000.0
    row = seat.row(5_000.0)
    assert row.lost and row.first and not (row.over or row.playing or row.reward)
    assert link.asked == ["old", "a", "d"]
    link.received = 5_100.0
    assert not seat.row(5_100.0).playing
    link.begin("d", messages.RESETTING)
    link.begin("e")
    assert seat.row(5_100.0).playing
    link.reward("e", 8.0, done=True)
    row = seat.row(5_200.0)
    assert (row.reward, row.over, row.lost) == (8.0, True, False)


def test_a_wait_of_which_the_beginning_was_missed_goes_on_until_another_episode(seated):
    seat, link = seated
    seat.row(0.0)
    link.begin("a")
    link.received = 5_000.0
    assert not seat.row(5_000.0).playing
    assert link.asked == ["old", "a"]
    link.begin("b")
    assert seat.row(5_100.0).playing


def test_an_episode_that_goes_on_after_a_pause_keeps_its_rewards(seated):
    seat, link = seated
    link.begin("a")
    seat.row(0.0)
    link.reward("a", 1.0)
    link.received = 5_000.0
    row = seat.row(5_000.0)
    assert row.playing and row.reward == 1.0 and link.asked == ["old"]


def test_episodes_before_a_remote_is_offered_are_nobodys():
    seat, link = Seat(PERIOD_MS), Told()
    link.play("a")
    link.begin("b")
    seat.offer(link)
    seat.row(0.0)
    assert link.asked == ["b"] and not seat.row(100.0).playing
    link.begin("c")
    assert seat.row(200.0).playing


def test_an_episode_that_has_ended_before_it_was_seen_is_not_played(seated):
    seat, link = seated
    link.play("a")
    link.begin("b")
    assert seat.row(100.0).playing and link.asked == ["old"]
    link.reward("b", 8.0, done=True)
    assert seat.row(200.0).reward == 8.0


def test_slow_ticks_miss_nothing():
    seat, link = Seat(2_000.0), Told()
    seat.offer(link)
    seat.row(0.0)
    link.begin("a")
    link.received = 3_500.0
    assert seat.row(3_500.0).playing
    link.reward("a", 8.0, done=True)
    link.received = 7_000.0
    row = seat.row(7_000.0)
    assert row.over and row.reward == 8.0 and link.asked == ["old", "a"]


def test_who_always_looks_late_plays_all_the_same(seated):
    seat, link = seated
    for tick, now in enumerate(range(1000, 8000, 700)):
        link.received = float(now)
        if seat.row(float(now)).playing:
            break
        link.begin(f"episode {tick}")
    assert tick < 4


def test_an_episode_that_is_shorter_than_a_tick_is_played(seated):
    seat, link = seated
    link.begin("a")
    link.reward("a", 8.0, done=True)
    assert seat.row(100.0).playing
    row = seat.row(200.0)
    assert row.over and row.reward == 8.0 and link.asked == ["old", "a"]


def test_a_stalled_game_is_no_experience_and_a_frozen_one_is_given_up(seated):
    seat, link = seated
    link.begin("a")
    seat.row(0.0)
    assert not seat.row(400.0).spoilt
    row = seat.row(700.0)
    assert row.spoilt and row.first and not seat.given_up()
    for now in range(1_000, 3_000, 300):
        seat.row(float(now))
    assert not seat.given_up()
    seat.row(3_100.0)
    assert "no new picture" in seat.given_up()
    seat.offer(None)
    assert seat.row(3_200.0).lost and not seat.given_up()


def test_a_game_is_not_frozen_because_nobody_has_looked(seated):
    seat, link = seated
    link.described = link.described | {"still_s": 2.0}
    link.begin("a")
    assert seat.row(100.0).playing
    link.pressed = 100.0
    seat.row(10_100.0)  # what has come in the meantime is not read yet
    assert not seat.given_up()
    link.received, link.pressed = 10_150.0, None
    assert not seat.row(10_200.0).spoilt and not seat.given_up()


def test_a_slow_game_is_not_frozen_between_two_frames(seated):
    seat, link = seated
    link.described = {"fps": 0.2}
    link.begin("a")
    seat.row(0.0)
    seat.row(10_000.0)
    seat.row(20_000.0)
    assert not seat.given_up()
    seat.row(31_000.0)
    assert "no new picture" in seat.given_up()


def test_whether_the_game_still_runs_is_doubtful_before_it_is_given_up(seated):
    seat, link = seated
    link.begin("a")
    seat.row(0.0)
    seat.row(250.0)
    assert not seat.is_doubtful()
    assert not seat.row(350.0).spoilt and seat.is_doubtful()
    link.received = 400.0
    seat.row(420.0)
    assert not seat.is_doubtful()


def test_a_program_that_is_stopped_is_no_experience_until_it_goes_on(seated):
    seat, link = seated
    link.begin("a")
    seat.row(0.0)
    link.begin("a", messages.FROZEN)
    assert seat.row(100.0).spoilt
    link.begin("a")
    row = seat.row(200.0)
    assert not (row.spoilt or row.first) and row.playing
    link.begin("a", messages.FROZEN)
    for now in range(300, 3_500, 100):
        link.received = float(now)  # the stamp is drawn on and on
        row = seat.row(now + 10.0)
        assert row.spoilt and row.first
    assert "its program was stopped" in seat.given_up()


def test_a_picture_may_stand_still_but_not_for_long_while_keys_are_pressed(seated):
    seat, link = seated
    link.described = link.described | {"still_s": 2.0}
    link.begin("a")
    for now in range(0, 10_000, 100):
        link.received = float(now)
        assert not seat.row(float(now)).spoilt
    link.pressed = 9_900.0
    for now in range(10_000, 11_900, 100):
        link.received = float(now)
        assert not seat.row(float(now)).spoilt and not seat.given_up()
    link.received = 12_000.0
    assert seat.row(12_000.0).spoilt and "for 2 s" in seat.given_up()
