"""Parts of worlds in real time that need no desktop: stamps, passwords, actions, episodes."""

import asyncio
import collections
import struct
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from environments.names import RealTimeLevel
from environments.realtime import actions, keeping, levels, messages, password, stamp
from environments.realtime.keys import KEYSYMS
from environments.realtime.level_keys import action_for, keys_of, made
from environments.realtime.link import Address, Link
from environments.realtime.messages import Message
from environments.realtime.rfb import RfbClient
from environments.realtime.seat import Seat
from environments.view import View

PERIOD_MS = 100.0


@pytest.mark.parametrize(
    "moment", [0, 1, 250, 251, 123_456_789, stamp.PERIOD_MS - 1, stamp.PERIOD_MS + 5]
)
def test_a_stamp_is_read_as_it_was_drawn(moment):
    drawn = np.repeat(stamp.drawn(moment)[:, :, None], 3, axis=2)
    assert drawn.shape == (stamp.HEIGHT, stamp.WIDTH, 3)
    assert stamp.read(drawn) == moment % stamp.PERIOD_MS


def test_other_pixels_are_no_stamp():
    half = stamp.drawn(123_456_789)
    half[:, : stamp.WIDTH // 2] = stamp.drawn(987_654_321)[:, : stamp.WIDTH // 2]
    assert stamp.read(half) is None
    for shade in (0, 255):
        assert stamp.read(np.full([2, stamp.WIDTH, 3], shade, np.uint8)) is None
    assert stamp.read(np.zeros([2, 10, 3], np.uint8)) is None


def test_the_time_between_stamps_passes_the_end_of_their_numbers():
    assert stamp.since(5, stamp.PERIOD_MS - 5) == 10


def test_password_files_are_those_of_vncpasswd(tmp_path, one_line):
    assert password.scrambled("password").hex() == "dbd83cfd727a1458"
    file = tmp_path / "password"
    made_ = password.make(file)
    assert password.read(str(file), "--flag") == made_ and len(made_) == 8
    file.chmod(0o644)
    one_line(lambda: password.read(str(file), "--flag"), "--flag", "chmod 600")
    one_line(lambda: password.read(str(tmp_path / "no"), "--flag"), "No such file")


def test_actions_are_named_sets_or_lists(tmp_path, one_line):
    assert len(actions.action_set("atari")) == 18
    assert actions.action_set("tap")[1].tapped == ("space",)
    grid = actions.action_set("pointer_grid", (160, 160))
    assert len(grid) == 257 and grid[1].click == (5, 5) and grid[-1].click == (155, 155)
    desk = actions.action_set("desktop", (160, 160))
    assert len(desk) == 1 + 64 + 64 + 40 + 26
    assert desk[65].drag == (10, 10) and desk[-1].tapped == ("shift", "z")
    file = tmp_path / "own.yaml"
    file.write_text("[none, left+up, tap ctrl+c, 'click 80,60', 'drag 90,60']")
    own = actions.action_set(str(file))
    assert own[1].held == {"left", "up"} and own[2].tapped == ("ctrl", "c")
    assert own[3].click == (80, 60) and own[4].drag == (90, 60)
    file.write_text("[none, drag 3]")
    one_line(lambda: actions.action_set(str(file)), "expected drag x,y in pixels")
    file.write_text("[none, lefft]")
    one_line(lambda: actions.action_set(str(file)), "lefft", "Did you mean left")
    file.write_bytes("# für zwei".encode("latin-1"))
    one_line(lambda: actions.action_set(str(file)), "own.yaml", "not text in UTF-8")
    one_line(lambda: actions.action_set("none.yaml"), "none.yaml", "No such file")
    one_line(lambda: actions.action_set("atary"), "--action_set=atary", "expected atari")


@pytest.mark.parametrize(
    "name, keys, action",
    [
        ("Catch-v0", {"left"}, 0),
        ("Catch-v0", set(), 1),
        ("PongNoFrameskip-v4", {"right", "space"}, 4),
        ("CartPole-v1", {"1"}, 1),
    ],
)
def test_levels_have_keys(name, keys, action):
    env = made(name, View())
    assert action_for(frozenset(keys), keys_of(env)) == action
    env.close()


def test_clicks_are_refused_where_there_are_keys_only(one_line):
    level = RealTimeLevel("Catch-v0")
    one_line(
        lambda: levels.game(level, View(action_set="pointer_grid")), "pointer_grid", "keys only"
    )


def test_drags_are_refused_where_a_desktop_passes_on_clicks_only(tmp_path, one_line):
    (tmp_path / "page.yaml").write_text(
        "{url: 'data:text/html,', score: '0', end: 'false', actions: [none, space]}"
    )
    level = RealTimeLevel(f"browser:{tmp_path}/page.yaml")
    one_line(lambda: levels.game(level, View(action_set="desktop")), "desktop", "no drags")


def test_addresses_name_two_ports(one_line):
    assert keeping.parse_address("host:5901+15901", "--remotes") == ("host", 5901, 15901)
    for one in ("host:5901", "host:70000+70001", "host:0+1", f"host:1+{'9' * 5000}"):
        one_line(lambda text=one: keeping.parse_address(text, "--remotes"), "expected host:port+")


@pytest.mark.parametrize("said", [b"RFB 003.003\n\0\0\0\0", b"RFB 003.008\n\0"])
def test_a_server_that_takes_nobody_at_the_moment_is_asked_again(said):
    async def greet() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(said + b"\0\0\0\4busy")
        await RfbClient(reader, Mock(), packed=False).greet("secret")

    with pytest.raises(ConnectionError, match="^busy$"):
        asyncio.run(greet())


def test_letters_have_other_numbers_while_shift_is_down():
    async def pressed(lines: list[str]) -> list[tuple[int, int]]:
        link, writer = Link(Address("127.0.0.1", 1, 2), 0.0), Mock()
        link._desktop = RfbClient(Mock(), writer, packed=False)
        for action in actions.parse(lines, "test"):
            link.press(action, 0.0)
        sent = [struct.unpack(">BBxxI", call.args[0]) for call in writer.write.call_args_list]
        return [(down, number) for _, down, number in sent]

    shift = KEYSYMS["shift"]
    assert asyncio.run(pressed(["tap shift+a", "a"])) == [
        *((1, shift), (1, ord("A")), (0, ord("A")), (0, shift)),
        (1, ord("a")),
    ]
    *rest, one, two = asyncio.run(pressed(["shift+b", "none"]))
    assert rest == [(1, shift), (1, ord("B"))] and {one, two} == {(0, ord("B")), (0, shift)}


def test_the_way_of_keys_that_nobody_times_has_the_injected_lag():
    async def way(lag_ms: float) -> float:
        link = Link(Address("127.0.0.1", 1, 2), lag_ms)
        link._pings.append((10.0, 0.0))
        return link.way_ms

    assert asyncio.run(way(150.0)) == 5.0 + 75.0
    assert asyncio.run(way(0.0)) == 5.0


def test_what_was_being_sent_before_a_link_runs_ends_with_it():
    cancelled: list[str] = []

    class Rewarder:
        """Is never done with what it is told; says nothing, and goes away."""

        async def send(self, text: str) -> None:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                cancelled.append(messages.decoded(text).method)
                raise

        def __aiter__(self) -> "Rewarder":
            return self

        async def __anext__(self) -> str:
            await asyncio.sleep(0.05)
            raise StopAsyncIteration

    rewarder: Any = Rewarder()

    async def run() -> None:
        faults: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context["message"]))
        link = Link(Address("127.0.0.1", 1, 2), 0.0)
        link._desktop = Mock(run=lambda _: asyncio.sleep(600))
        link._rewarder = rewarder
        link._tell(Message(messages.RESET))
        assert await link.run() == "the connection was lost (it was closed)"
        assert not cancelled
        await link.close()
        await asyncio.sleep(0)
        assert messages.RESET in cancelled and not faults

    asyncio.run(run())


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
    assert seat.row(0.0).reward == 3.0
    link.reward("a", 4.0, done=True)
    link.begin("b")
    link.reward("b", 8.0)
    row = seat.row(0.0)
    assert (row.reward, row.over, row.terminated, row.first) == (4.0, True, True, False)
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
    seat.row(3_100.0)
    assert "no new picture" in seat.given_up()
    seat.offer(None)
    assert seat.row(3_200.0).lost and not seat.given_up()


def test_a_slow_game_is_not_frozen_between_two_frames(seated):
    seat, link = seated
    link.described = {"fps": 0.2}
    link.begin("a")
    seat.row(0.0)
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
