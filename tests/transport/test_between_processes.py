"""Blocks and weights between a learner and its actors, on loopback, by each transport."""

import socket
import threading
import time

import numpy as np
import pytest

from tests.trainer.cluster import free_address
from tests.transport.ends import BLOCKS, TIMEOUT_S, Actor, Learner, Plain, eventually, running
from transport import Closed, Refused, make_identity, messages
from transport.messages import Silent
from user_error import UserError

pytestmark = pytest.mark.usefixtures("carrier")


def test_blocks_of_several_actors_arrive_whole_and_once():
    learner = Learner(capacity=5)
    actors = [Actor(learner, f"actor {i}") for i in range(3)]

    def play(index: int) -> None:
        for start in range(0, 60, 3):
            actors[index].put([index * 1000 + start + i for i in range(3)])

    with running(learner, *actors):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        threads = [threading.Thread(target=play, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        found = learner.take(180)
        for thread in threads:
            thread.join()
    for index in range(3):
        mine = [number % 1000 for number in found if number // 1000 == index]
        assert mine == list(range(60))


def test_a_full_queue_holds_back_its_actors(carrier):
    learner = Learner(capacity=4)
    actor = Actor(learner, "actor")
    with running(learner, actor):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        sent = 0
        # Longer than a call may take: waiting for room must not count as silence.
        while actor.put([sent] * 4, seconds=4 * TIMEOUT_S):
            sent += 1
        assert sent == carrier.held
        told = "".join(actor.printed)
        assert "Waiting" not in told
        assert told.count("is there, but has not taken a block") == 1
        assert learner.take(4 * sent) == [i for i in range(sent) for _ in range(4)]
        assert learner.receiver.waited_s() > 0


def test_an_actor_gets_each_newer_version_of_the_weights_once():
    learner = Learner()
    actor = Actor(learner, "actor")
    with running(learner, actor):
        assert not actor.put([1], seconds=0.5)  # nothing to play with yet
        for version in range(5):
            learner.receiver.publish([np.full(3, version, np.float32)], version)
            eventually(lambda v=version: actor.weights and actor.weights[-1] == (v, [v] * 3))
        time.sleep(3 * TIMEOUT_S / 4)
    assert [version for version, _ in actor.weights] == list(range(5))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"level": "B"}, "level is A at the learner and B at the actor"),
        (
            {"transport protocol": "0"},
            "transport protocol is 1, little-endian at the learner and 0 at the actor",
        ),
        ({"new": "1"}, "new is unknown at the learner and 1 at the actor"),
    ],
)
def test_an_actor_with_another_spec_is_refused_on_both_sides(changes, words):
    learner = Learner()
    actor, other = Actor(learner, "actor"), Actor(learner, "other", **changes)
    with running(learner, actor, other):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        with pytest.raises(Refused, match=words):
            other.put([66])
        eventually(lambda: any(words in line for line in learner.printed))
        actor.put([1])
        assert learner.take(1) == [1]
    assert len([line for line in learner.printed if "refused" in line]) == 1


def test_an_actor_with_blocks_that_are_too_large_is_refused_and_the_others_play_on():
    learner = Learner(most=2)
    actor, other = Actor(learner, "actor"), Actor(learner, "other")
    words = "its blocks have 3 unrolls, and there is room for 2 of an actor"
    with running(learner, actor, other):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        with pytest.raises(Refused, match=f"refuses this actor: {words}.*--envs_per_actor"):
            other.put([6, 6, 6])
        # One that sends it all the same does not end the learner either.
        sender = learner.connection()
        mine = messages.fingerprint(make_identity(learner.properties, BLOCKS.digest()))
        header = messages.Header(mine, bytes(16), 1, 3, 0.0)
        sender.put(header.pack(), BLOCKS.pack(np.zeros([2, 3], np.int64), 3))
        eventually(lambda: any(f"a block was refused: {words}" in one for one in learner.printed))
        sender.close()
        actor.put([1, 2])
        assert learner.take(2) == [1, 2]


def test_a_learner_drops_blocks_with_too_many_unrolls_for_another():
    learner = Learner(most=2)
    mine = Actor(learner, "learner 1", of_learner=True)
    words = "refuses this learner: its blocks have 3 unrolls, and there is room for 2"
    with running(learner, mine):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        assert mine.put([6, 6, 6]) and mine.put([6, 6, 6]) and mine.put([1, 2])
        assert learner.take(2) == [1, 2]
    assert len([line for line in mine.printed if words in line]) == 1
    assert mine.link.dropped == 2


def test_a_learner_with_other_settings_of_learners_is_refused_and_actors_are_not_asked():
    learner = Learner(among={"rate": "1"})
    actor, mine = Actor(learner, "actor"), Actor(learner, "learner 1", of_learner=True, rate="1")
    other = Actor(learner, "learner 2", of_learner=True, rate="2")
    with running(learner, actor, mine, other):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        assert actor.put([1]) and mine.put([2])
        assert sorted(learner.take(2)) == [1, 2]
        words = "refuses this learner: rate is 1 there and 2 here"
        eventually(lambda: words in str(other.link.refusal))
        eventually(lambda: any("rate is 1 here and 2 there" in one for one in learner.printed))
    assert len([line for line in learner.printed if "refused" in line]) == 1


def test_blocks_from_unannounced_senders_are_dropped():
    learner = Learner()
    actor = Actor(learner, "actor")
    with running(learner, actor):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        stranger = learner.connection()
        for header in (b"", b"x" * 10, b"y" * 48):
            stranger.put(np.frombuffer(header, np.uint8), np.zeros(64, np.uint8))
        stranger.write(b"\xff not JSON")
        stranger.write(b'{"actor": 7}')
        stranger.close()
        actor.put([5])
        assert learner.take(1) == [5]


def test_a_block_sent_twice_arrives_once():
    learner = Learner()
    print_of = messages.fingerprint(make_identity(learner.properties, BLOCKS.digest()))
    with running(learner):
        connection = learner.connection()
        for number in (1, 1, 2, 1, 2, 3):
            header = messages.Header(print_of, b"a" * 16, number, 1, 0.0)
            connection.put(header.pack(), BLOCKS.pack(np.array([[number], [number]]), 1))
        assert learner.take(3) == [1, 2, 3]
        assert learner.receiver.take(0.2) is None
        connection.close()


def test_a_silent_actor_is_reported_missing_but_one_that_leaves_is_not():
    learner = Learner()
    leaving, silent = Actor(learner, "leaving"), Actor(learner, "silent")
    with running(learner, leaving):
        connection = learner.connection()
        connection.write(silent.link._this_end.hello())
        eventually(lambda: "leaving has joined" in str(learner.printed))
        leaving.link.__exit__()
        eventually(lambda: "leaving has left" in str(learner.printed))
        eventually(lambda: "nothing has been heard of silent" in str(learner.printed))
        connection.write(silent.link._this_end.letter("beat"))
        eventually(lambda: "silent is back" in str(learner.printed))
    assert "heard of leaving" not in str(learner.printed)


def test_actors_learn_that_the_learner_has_finished():
    learner = Learner()
    actor = Actor(learner, "actor")
    with running(learner, actor):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        actor.put([1])
        finishing = threading.Thread(target=learner.receiver.finish)
        finishing.start()
        with pytest.raises(Closed):
            while True:
                actor.put([2])
        finishing.join()


def test_an_actor_waits_for_a_missing_learner_and_names_it(carrier):
    learner = Learner()
    nobody = Actor(learner, "actor")
    nobody.link._connect = lambda: carrier.connection("localhost", 1)
    with running(nobody):
        eventually(lambda: nobody.printed)
        assert not nobody.put([1], seconds=0.2)
    assert nobody.printed == [f"Waiting for the learner at {learner.address} (Connection refused)."]


def test_an_ipv6_address_in_brackets_works(carrier, ipv6_port):
    server = carrier.server("[::1]", ipv6_port, lambda _: None)
    server.announce(b"it is me")
    connection = carrier.connection("[::1]", ipv6_port)
    assert connection.about() == b"it is me"
    connection.close()
    server.close()


def test_a_host_that_tensorflow_cannot_parse_is_reported():
    with pytest.raises(UserError, match="--learner_host=a/b:1025: cannot listen there"):
        Plain().server("a/b", 1025, None)


def test_a_port_in_use_is_reported(carrier):
    with socket.create_server(("localhost", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f":{port}: cannot listen there .Address already"):
            carrier.server("localhost", port, lambda _: None)


class Late:
    """A connection whose weights come only when a test says so."""

    def __init__(self, real, gate: threading.Event):
        self._real, self._gate = real, gate

    def __getattr__(self, name: str):
        return getattr(self._real, name)

    def weights(self, limit_s: float):
        self._gate.wait(20)
        return self._real.weights(limit_s)


class Slow:
    """A connection over which weights take too long so many times, or so many seconds."""

    def __init__(self, real):
        self._real = real
        self.too_late, self.seconds = 3, 0.0
        self.limits: list[float] = []

    def __getattr__(self, name: str):
        return getattr(self._real, name)

    def weights(self, limit_s: float):
        self.limits.append(limit_s)
        if self.too_late:
            self.too_late -= 1
            raise Silent
        time.sleep(self.seconds)
        return self._real.weights(limit_s)


@pytest.mark.parametrize("trains", [True, False])
def test_a_link_is_current_once_it_has_the_weights_that_there_were(trains):
    learner, gate = Learner(), threading.Event()
    actor = Actor(learner, "actor")
    connect = actor.link._connect
    actor.link._connect = lambda: Late(connect(), gate)
    with running(learner):
        if trains:
            learner.receiver.publish([np.ones(3, np.float32)], 4)
            time.sleep(0.5)  # the learner publishes in a thread of its own
        with running(actor):
            eventually(lambda: actor.link.is_connected)
            time.sleep(0.5)
            assert not actor.link.is_current
            gate.set()
            eventually(lambda: actor.link.is_current)
            assert [version for version, _ in actor.weights] == [4] * trains


def test_weights_over_a_slow_link_come_at_last_and_its_actor_plays_on_with_older_ones():
    learner, made = Learner(), list[Slow]()
    actor = Actor(learner, "actor")
    connect = actor.link._connect

    def connected() -> Slow:
        made.append(Slow(connect()))
        return made[-1]

    actor.link._connect = connected
    with running(learner, actor):
        learner.receiver.publish([np.zeros(3, np.float32)], 7)
        eventually(lambda: actor.weights)
        assert made[0].limits[:4] == [1 * TIMEOUT_S, 2 * TIMEOUT_S, 4 * TIMEOUT_S, 8 * TIMEOUT_S]
        made[0].too_late = 2
        learner.receiver.publish([np.ones(3, np.float32)], 8)
        eventually(lambda: made[0].too_late < 2)
        assert len(actor.weights) == 1 and actor.put([1]) and learner.take(1) == [1]
        eventually(lambda: len(actor.weights) == 2)
        # Signs of life go on meanwhile.
        made[0].seconds = 1.5 * TIMEOUT_S
        learner.receiver.publish([np.ones(3, np.float32)], 9)
        eventually(lambda: len(actor.weights) == 3)
        assert actor.put([2]) and learner.take(1) == [2]
    assert [version for version, _ in actor.weights] == [7, 8, 9]
    assert len(made) == 1 and "nothing has been heard" not in str(learner.printed)
    first, *others = [line for line in actor.printed if "Connected" not in line]
    assert "is there, but its weights of 6.4e-05 MB take longer than 2 s" in first
    assert "--peer_timeout_s" in first
    assert others == [first]  # of the weights after those that came


def test_no_letter_is_lost_when_it_comes_as_waiting_for_it_ends(carrier):
    host, port = free_address().split(":")
    server = carrier.server(host, int(port), print)
    connection = carrier.connection(host, int(port))

    def write() -> None:
        for number in range(300):
            time.sleep(number % 7 / 1000)
            connection.write(str(number).encode())

    writer = threading.Thread(target=write)
    writer.start()
    heard: list[bytes] = []
    until = time.monotonic() + 120
    while len(heard) < 300 and time.monotonic() < until:
        if letter := server.hear(0.003):
            heard.append(letter)
    writer.join()
    connection.close()
    server.close()
    assert heard == [str(number).encode() for number in range(300)]
    with pytest.raises(Closed):
        eventually(lambda: server.hear(0.01))
