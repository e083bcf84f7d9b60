"""Parts of worlds in real time that need no desktop: stamps, passwords, actions, links."""

import asyncio
import struct
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from environments.names import RealTimeLevel
from environments.python.levels import make_undressed
from environments.realtime import actions, keeping, level_keys, levels, messages, password, stamp
from environments.realtime.keys import KEYSYMS
from environments.realtime.level_keys import action_for, keys_of, made
from environments.realtime.link import FIRST_EVERY_S, Address, Link
from environments.realtime.messages import Message
from environments.realtime.rfb import RfbClient
from environments.view import View
from tests.trainer.disks import files_limited_to

# A rectangle of RFB, copied from below the picture.
COPIED = struct.pack(">HHHHiHH", 0, 0, 4, 2, 1, 0, 9)


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
    with file.open("ab") as more:
        more.write(password.scrambled("look"))  # for those who only look, as vncpasswd asks
    assert password.read(str(file), "--flag") == made_
    with file.open("ab") as more:
        more.write(b"x")
    one_line(lambda: password.read(str(file), "--flag"), "it holds no password of VNC")
    file.chmod(0o644)
    one_line(lambda: password.read(str(file), "--flag"), "--flag", "chmod 600")
    one_line(lambda: password.read(str(tmp_path / "no"), "--flag"), "No such file")


def test_a_password_for_which_there_is_no_room_leaves_no_file(tmp_path):
    with files_limited_to(4), pytest.raises(OSError, match="File too large"):
        password.make(tmp_path / "password")
    assert list(tmp_path.iterdir()) == []
    password.make(tmp_path / "password")
    with pytest.raises(FileExistsError):
        password.make(tmp_path / "password")
    assert [path.name for path in tmp_path.iterdir()] == ["password"]


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


def test_a_desktop_shows_levels_in_colour_whatever_the_agent_sees(monkeypatch):
    shown = []

    def make(level, level_name, view, render):
        shown.append(view.colour)
        return make_undressed(level, level_name, view, render)

    monkeypatch.setattr(level_keys, "make_undressed", make)
    made("Catch-v0", View()).close()
    assert shown == [True]


def test_clicks_are_refused_where_there_are_keys_only(one_line):
    level = RealTimeLevel("Catch-v0")
    one_line(
        lambda: levels.game(level, View(action_set="pointer_grid")), "pointer_grid", "keys only"
    )


def test_drags_are_refused_where_a_desktop_passes_on_clicks_only(tmp_path, one_line):
    level = RealTimeLevel(f"browser:{tmp_path}/page.yaml")
    for own, action_set, told in (
        ("[none, space]", "desktop", "--action_set=desktop"),
        ("desktop", "", "actions of browser:"),
        ("[none, 'drag 9,9']", "", "actions of browser:"),
    ):
        page = f"{{url: 'data:text/html,', score: '0', end: 'false', actions: {own}}}"
        (tmp_path / "page.yaml").write_text(page)
        view = View(action_set=action_set)
        one_line(lambda view=view: levels.game(level, view), told, "page.yaml", "no drags")


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
        """Takes for ever to send a message, says nothing, and closes its connection."""

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


@pytest.mark.parametrize(
    "method, body",
    [
        (messages.REWARD, {"done": False}),
        (messages.REWARD, {"reward": "1", "done": False}),
        (messages.REWARD, {"reward": 10**400, "done": False}),
        (messages.REWARD, {"reward": 1}),
        (messages.REWARD, {"reward": 1, "done": False, "info": None}),
        (messages.REWARD, {"reward": 1, "done": False, "at": "now"}),
        (messages.DESCRIBE, {"fps": "many"}),
        (messages.DESCRIBE, {"still_s": [1]}),
        (messages.DESCRIBE, {"picture": None}),
        (messages.DESCRIBE, {"picture": [80, 0]}),
        (messages.DESCRIBE, {"picture": [80, 40.5]}),
        (messages.INPUT, {}),
        (messages.INPUT, {"keys": [["left", True]]}),
        (messages.INPUT, {"keys": [["left", True, None]]}),
    ],
)
def test_a_message_without_what_it_should_tell_is_none(method, body):
    with pytest.raises(ValueError, match="not a message of a rewarder"):
        messages.decoded(Message(method, body).encoded())


@pytest.mark.parametrize("packed", [struct.pack(">HHHHi", 8, 8, 4, 2, 0), COPIED])
def test_what_a_server_draws_outside_of_its_picture_ends_the_connection(packed):
    async def run() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(struct.pack(">BxH", 0, 1) + packed + bytes(32))
        client = RfbClient(reader, Mock(), packed=False)
        client.width = client.height = 10
        await client.run(lambda rectangles: None)

    with pytest.raises(EOFError, match="is not within the picture"):
        asyncio.run(run())


class Answering:
    """Answers pings later than the next ones are sent, or never."""

    def __init__(self, after_s: float | None) -> None:
        self._after_s = after_s
        self._answers: asyncio.Queue[str] = asyncio.Queue()

    async def send(self, text: str) -> None:
        answer = Message(messages.REPLY_PING, parent=messages.decoded(text).number)
        if self._after_s is not None:
            later = asyncio.get_running_loop().call_later
            later(self._after_s, lambda: self._answers.put_nowait(answer.encoded()))

    def __aiter__(self) -> "Answering":
        return self

    async def __anext__(self) -> str:
        return await self._answers.get()


def link_to(rewarder: Any) -> Link:
    link = Link(Address("127.0.0.1", 1, 2), 0.0)
    link._desktop = Mock(run=lambda _: asyncio.sleep(600))
    link._rewarder = rewarder
    return link


def test_clocks_are_compared_however_long_the_way_is():
    async def run() -> None:
        link = link_to(Answering(2.5 * FIRST_EVERY_S))
        running = asyncio.create_task(link.run())
        async with asyncio.timeout(20):
            while np.isnan(link.skew):
                await asyncio.sleep(0.05)
        assert link.way_ms > 1000 * FIRST_EVERY_S
        running.cancel()
        await link.close()

    asyncio.run(run())


def test_a_rewarder_that_does_not_answer_is_lost_though_its_desktop_goes_on(monkeypatch):
    monkeypatch.setattr("environments.realtime.link.PING_EVERY_S", 0.01)
    monkeypatch.setattr("environments.realtime.link.ANSWERS_WITHIN_MS", 100.0)

    async def run() -> str:
        link = link_to(Answering(None))
        async with asyncio.timeout(20):
            reason = await link.run()
        await link.close()
        return reason

    assert asyncio.run(run()) == "the connection was lost (its rewarder does not answer)"


def test_where_to_look_is_a_command_of_vncviewer_for_any_address():
    told = [Address(host, 5901, 5902).look("a b") for host in ("127.0.0.1", "::1")]
    assert told == [
        "vncviewer -passwd 'a b' 127.0.0.1::5901",
        "vncviewer -passwd 'a b' '[::1]::5901'",
    ]
