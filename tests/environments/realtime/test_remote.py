"""Remotes as they are: a real desktop, a real window, a real rewarder."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import environments
from environments import Remotes
from environments.realtime import keeping, messages, password
from environments.realtime.actions import Action
from environments.realtime.link import Link
from environments.realtime.rfb import Refused
from environments.realtime.seat import Seat
from environments.remote.desktop import Desktop
from environments.remote.program import Screen
from tests.environments.realtime.remotes import ECHO, REFLEX, REWARDING, remote

pytestmark = pytest.mark.xdist_group("remotes")


# A program that writes down the letters that it gets.
WRITES = """
import sys, pygame
pygame.display.init()
pygame.display.set_mode((80, 40), pygame.NOFRAME)
while True:
    event = pygame.event.wait()
    if event.type == pygame.KEYDOWN and event.unicode:
        print(event.unicode, end="", flush=True)
"""


def lines_of(file, what):
    return [
        line for line in map(json.loads, file.read_text().split("\n")[:-1]) if line["what"] == what
    ]


def test_a_remote_is_guarded_and_shows_the_same_packed_or_not():
    with remote("--level_name=Catch-v0", "--fps=20") as served:
        secret = password.read(served.password_file, "--password_file")
        assert os.stat(served.password_file).st_mode & 0o077 == 0

        async def look(packed: bool, wanted: str) -> np.ndarray:
            link = Link(served.address, 0.0)
            try:
                await link.connect(wanted, packed)
                reading = asyncio.create_task(link.run())
                while link.take().drawn is None:
                    await asyncio.sleep(0.05)
                picture = link.take().picture
                reading.cancel()
                return picture
            finally:
                await link.close()

        for packed in (False, True):
            picture = asyncio.run(look(packed, secret))
            assert picture.shape == (240, 240, 3)
            assert set(np.unique(picture)) == {0, 160, 255}
            assert (picture == 160).all(axis=2).sum() == 24 * 24
        with pytest.raises(Refused, match="wrong password"):
            asyncio.run(look(False, "wrong"))

        async def only_rewarder() -> None:
            link = Link(served.address, 0.0)
            from websockets.asyncio.client import connect

            link._rewarder = await connect(f"ws://127.0.0.1:{served.address.rewarder}")
            await link._prove("wrong")

        with pytest.raises(Refused, match="wrong password"):
            asyncio.run(only_rewarder())
        listening = subprocess.run(
            ["ss", "-Hltn"], check=True, capture_output=True, text=True
        ).stdout
        ours = [line.split()[3] for line in listening.split("\n") if line]
        for port in served.address[1:]:
            assert [one for one in ours if one.endswith(f":{port}")] == [f"127.0.0.1:{port}"]


def test_letters_arrive_as_they_are_written(tmp_path):
    secret = password.make(tmp_path / "p")
    desktop = Desktop(80, 40, "127.0.0.1", 0, tmp_path / "p", tmp_path)
    typed = tmp_path / "typed"
    with typed.open("w") as written:
        # Other tests of this process make windows that nobody sees.
        seen = os.environ | desktop.environment | {"SDL_VIDEODRIVER": "x11"}
        program = subprocess.Popen([sys.executable, "-c", WRITES], env=seen, stdout=written)
    try:
        screen = Screen("127.0.0.1", desktop.port, secret, 80, 40)
        while not typed.read_text().endswith("x"):  # keys before the window is there go nowhere
            screen.press(["x"], None)
        for keys in (["shift", "a"], ["b"], ["shift", "7"], ["7"]):
            screen.press(keys, None)
        while len(text := typed.read_text().partition("x")[2].lstrip("x")) < 4:
            time.sleep(0.05)
        assert text == "Ab&7"
    finally:
        program.kill()
        program.wait()
        desktop.close()


def test_a_key_that_a_lost_connection_holds_is_up_for_the_next_one(tmp_path):
    record = tmp_path / "record"
    with remote("--level_name=Catch-v0", "--fps=20", f"--record={record}") as served:
        secret = password.read(served.password_file, "--password_file")

        async def hold() -> None:
            link = Link(served.address, 0.0)
            await link.connect(secret)
            link.press(Action(held=frozenset(["left"])), 0.0)
            while not [line for line in lines_of(record, "key") if line["down"]]:
                await asyncio.sleep(0.05)
            other = Link(served.address, 0.0)  # while the first one is connected still
            await other.connect(secret)
            other.release(["left", "right"])
            until = time.monotonic() + 30
            while "left" not in [o["key"] for o in lines_of(record, "key") if not o["down"]]:
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            await other.close()
            await link.close()

        asyncio.run(hold())


def test_a_key_that_is_held_at_an_episodes_end_is_up_in_the_next_one():
    with remote(f"--level_name={ECHO}", "--fps=10") as served:
        places = Remotes([str(served.address)], served.password_file)
        env = environments.make(f"vnc:{ECHO}", 1, 1, fps=10, width=8, height=8, remotes=places)
        env.reset()
        returns = []
        for action in (1, 0):
            while not (ended := env.episodes()):
                env.step(np.array([action]))
            returns.append(ended[0].raw_return)
        env.close()
    # The key may be up a frame later than the episode begins, but not ten.
    assert returns[0] > 5 > returns[1]


def test_connections_without_a_login_lock_nobody_out():
    with remote("--level_name=Catch-v0", "--fps=20") as served:
        for _ in range(12):
            with socket.create_connection(served.address[:2], timeout=5) as one:
                assert one.recv(4) == b"RFB "

        async def log_in() -> None:
            link = Link(served.address, 0.0)
            try:
                await link.connect(password.read(served.password_file, "--password_file"))
            finally:
                await link.close()

        asyncio.run(log_in())


def test_no_reward_is_lost_or_doubled(tmp_path, monkeypatch):
    # Rows that come late do not count; on a busy machine some do.
    monkeypatch.setattr("environments.realtime.environment.MOST_LATE_S", 60.0)
    monkeypatch.setattr("environments.realtime.seat.STALLED_AFTER_MS", 60_000.0)
    monkeypatch.setattr("environments.realtime.seat.MISSED_AFTER_MS", 60_000.0)
    ended, play = list[str](), Seat._play

    def watched(seat: Seat, snapshot: Any, now: float) -> Any:
        row = play(seat, snapshot, now)
        ended.extend([seat._episode] if row.over else [])
        return row

    monkeypatch.setattr(Seat, "_play", watched)
    record = tmp_path / "record"
    with remote(f"--level_name={REWARDING}", "--fps=30", f"--record={record}") as served:
        places = Remotes([str(served.address)], served.password_file)
        env = environments.make(
            f"vnc:{REWARDING}",
            1,
            1,
            fps=30,
            num_action_repeats=2,
            width=8,
            height=8,
            remotes=places,
        )
        seen = env.reset()
        assert seen.observation.shape == (1, 8, 8, 1)
        episodes: list[environments.Episode] = []
        total = 0.0
        while len(episodes) < 12:
            step = env.step(np.zeros(1, int))
            total += float(step.reward[0])
            episodes += env.episodes()
            assert step.reward[0] == 0 or not step.first[0]
        env.close()
    # Whole episodes, and nothing but these: 1 + 2 + … + 10 each, all of it as rewards of steps.
    assert {one.raw_return for one in episodes} == {55.0}
    assert total == sum(one.raw_return for one in episodes)
    # What the remote plays before and after is nobody's.
    assert len(set(ended)) == len(ended) == len(episodes)
    assert set(ended) <= {line["episode"] for line in lines_of(record, "over")}


def play_two(env: environments.VectorEnvironment) -> None:
    """Plays two episodes."""
    until, ended = time.monotonic() + 60, 0
    while ended < 2 and time.monotonic() < until:
        env.step(np.zeros(env.num_envs, int))
        ended += len(env.episodes())
    assert ended >= 2


def test_what_is_played_in_a_pause_is_no_episode(tmp_path, monkeypatch):
    taken, play = set[str](), Seat._play

    def watched(seat: Seat, snapshot: Any, now: float) -> Any:
        taken.add(seat._episode)
        return play(seat, snapshot, now)

    monkeypatch.setattr(Seat, "_play", watched)
    record = tmp_path / "record"
    with remote(f"--level_name={REWARDING}", "--fps=30", f"--record={record}") as served:
        places = Remotes([str(served.address)], served.password_file)
        env = environments.make(f"vnc:{REWARDING}", 1, 1, fps=30, width=8, height=8, remotes=places)
        env.reset()
        play_two(env)
        paused = messages.now_ms()
        time.sleep(3.0)
        went_on = messages.now_ms()
        play_two(env)
        env.close()
    over = {line["episode"]: line["at"] for line in lines_of(record, "over")}
    begun = {line["episode"]: line["at"] for line in lines_of(record, "begun")}
    unseen = {one for one, at in over.items() if paused < begun[one] and at < went_on}
    assert unseen and not unseen & taken


@pytest.mark.parametrize("lag", [0.0, 80.0])
def test_the_reaction_time_is_what_the_game_sees(tmp_path, lag):
    record = tmp_path / "record"
    with remote(f"--level_name={REFLEX}", "--fps=15", f"--record={record}") as served:
        places = Remotes([str(served.address)], served.password_file, lag)
        env = environments.make(f"vnc:{REFLEX}", 1, 1, fps=15, width=8, height=8, remotes=places)
        step = env.reset()
        told: list[float] = []
        while len(told) < 15:
            bright = step.observation.mean() > 100
            step = env.step(np.array([int(bright)]))
            if bright and not step.first[0]:
                told.append(float(env.figures()["reaction_time"][0]))
        env.close()
    true = reaction_times(record)
    known = [one for one in told if not np.isnan(one)]
    # What is compared are two measurements of the same delay, not how long it was.
    assert np.median(known) - np.median(true) == pytest.approx(0, abs=1000 / 15)
    assert min(true) > lag


def reaction_times(record) -> list[float]:
    """From the picture that is bright for the first time to the key, as the remote has noted."""
    true, dark, lit = [], 0, None
    for line in map(json.loads, record.read_text().split("\n")[:-1]):
        if line["what"] == "begun":
            dark, lit = 0, None
        elif line["what"] == "drawn":
            dark += 1
            lit = line["at"] if dark == 3 else lit
        elif line["what"] == "key" and line["down"] and lit:
            true.append(line["at"] - lit)
            lit = None
    return true


def test_a_remote_that_dies_or_freezes_is_replaced_while_others_go_on():
    told: list[str] = []
    env = environments.make(
        "vnc:Catch-v0", 3, 1, fps=20, width=10, height=10, remotes=Remotes(say=told.append)
    )
    try:
        env.reset()
        pids = [keeper._source.pid for keeper in env._keepers]  # type: ignore[attr-defined]

        def play_until(condition, seconds=60.0):
            ended, spoilt = np.zeros(3, int), np.zeros(3, bool)
            until = time.monotonic() + seconds
            while not condition(ended) and time.monotonic() < until:
                env.step(np.ones(3, int))
                spoilt |= env.spoilt()
                for episode in env.episodes():
                    ended[episode.environment] += 1
            return ended, spoilt

        play_until(lambda ended: (ended > 0).all())
        env.spoilt()
        os.kill(pids[0], signal.SIGKILL)
        os.kill(pids[1], signal.SIGSTOP)
        ended, spoilt = play_until(lambda ended: (ended > 1).all())
        assert (ended > 1).all()
        assert ended[2] > ended[1]  # the first may be there again before the third ends a game
        assert spoilt[:2].all()
        assert any("environment 0" in line and "lost" in line for line in told)
        assert any("environment 1" in line and "frozen" in line for line in told)
        assert [k._source.pid != pid for k, pid in zip(env._keepers, pids, strict=True)] == [  # type: ignore[attr-defined]
            True, True, False,
        ]  # fmt: skip
    finally:
        env.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_remote_elsewhere_is_waited_for(tmp_path):
    told: list[str] = []
    first = remote("--level_name=Catch-v0", "--fps=20", f"--password_file={tmp_path / 'p'}")
    password.make(tmp_path / "p")
    with first as served:
        places = Remotes([str(served.address)], str(tmp_path / "p"), say=told.append)
        env = environments.make("vnc:Catch-v0", 1, 1, fps=20, width=10, height=10, remotes=places)
        env.reset()
    ports = (f"--vnc_port={served.address.desktop}", f"--rewarder_port={served.address.rewarder}")
    try:
        env.step(np.ones(1, int))
        again = remote(
            "--level_name=Catch-v0", "--fps=20", f"--password_file={tmp_path / 'p'}", *ports
        )
        with again:
            until, ended = time.monotonic() + 60, 0
            while ended < 2 and time.monotonic() < until:
                env.step(np.ones(1, int))
                ended += len(env.episodes())
            assert ended >= 2
        assert any("next try in" in line for line in told)
    finally:
        env.close()


def test_messages_name_their_episode_and_what_they_answer():
    body = {"reward": 1.0, "done": False}
    text = messages.Message(messages.REWARD, body, "e", parent=7).encoded()
    headers = json.loads(text)["headers"]
    assert headers["episode_id"] == "e" and headers["parent_message_id"] == 7
    assert messages.decoded(text).body == body
    with pytest.raises(ValueError, match="not a message"):
        messages.decoded("[]")
    with pytest.raises(OSError, match="has printed"):
        keeping.parse_announcement("hello")
