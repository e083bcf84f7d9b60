"""The secure transport between a learner and its own actors."""

import contextlib
import re
import socket
import threading
import time
from typing import Any

import numpy as np
import pytest

from tests.transport.ends import (
    BLOCKS,
    TIMEOUT_S,
    Actor,
    Learner,
    Secure,
    eventually,
    reported_once,
    running,
    secure_server,
)
from transport import (
    Closed,
    Layout,
    Receiver,
    Refused,
    distributed,
    make_identity,
    messages,
    secure,
)
from transport.layout import ArraySpec
from transport.messages import Lasting, Lost, Silent, Stranger
from transport.secure import calls, server
from transport.telling import Telling

import grpc  # isort: skip (not before transport.secure, which sets how it logs)

pytestmark = pytest.mark.usefixtures("secure_ends")


def test_a_block_beyond_the_limit_ends_its_actor_with_a_reason(learner):
    actor = Actor(learner, "large")
    advice = "are allowed. Give the actor a lower --envs_per_actor"
    with running(actor), pytest.raises(Refused, match=advice):
        actor.put(list(range(2000)))
        actor.put([1])


def test_a_learner_drops_its_blocks_beyond_the_limit_of_another_and_says_why_once(learner):
    mine = Actor(learner, "learner 1", of_learner=True)
    with running(mine):
        for _ in range(3):
            assert mine.put(list(range(2000)))
        assert mine.put([1])
        assert learner.take(1) == [1]
    assert mine.link.dropped == 3
    assert len([line for line in mine.printed if "A block was dropped: " in line]) == 1
    assert len([line for line in mine.printed if "Connected" in line]) == 1


def test_an_actor_of_another_run_is_refused_with_a_reason(learner, tmp_path):
    other = Secure(tmp_path / "other")
    stranger = secure.Connection(
        learner.host,
        learner.port,
        # The right certificate, which anyone can fetch, and a token of another run.
        type(other.actor)("actor.pem", learner.carrier.actor.certificate, other.actor.token),
        TIMEOUT_S,
    )
    with pytest.raises(Refused, match="does not accept the token in actor.pem"):
        stranger.about()


def test_an_actor_refuses_a_learner_with_another_certificate_and_sends_it_nothing(tmp_path):
    mine, other = Secure(tmp_path / "mine"), Secure(tmp_path / "other")
    impostor = Learner()
    with running(impostor):
        Learner.carrier = mine
        actor = Actor(impostor, "actor")
        with running(actor), pytest.raises(Refused, match="its certificate is not the one in"):
            actor.put([1])
        reported_once(impostor, "made no call: an actor that gave up, a port scan")
    assert not any("joined" in line for line in impostor.printed)
    assert other.actor.token != mine.actor.token


def test_an_actor_outlasts_another_server_in_the_place_of_its_learner(monkeypatch, tmp_path):
    learner = Learner()
    learner.receiver.publish([np.zeros(3, np.float32)], 0)
    actor = Actor(learner, "actor")
    with running(actor):
        with running(learner):
            assert actor.put([1])
        with monkeypatch.context() as changed:
            changed.setattr(Learner, "carrier", Secure(tmp_path / "other"))
            impostor = Learner(address=learner.address)
        with running(impostor):
            words = "Waiting for the learner at .*: that is of another run, or another server"
            eventually(lambda: any(re.match(words, line) for line in actor.printed))
            reported_once(impostor, "made no call: an actor that gave up, a port scan")
        with running(again := Learner(address=learner.address)):
            again.receiver.publish([np.zeros(3, np.float32)], 0)
            assert actor.put([2]) and actor.put([3])
    assert len([line for line in actor.printed if "certificate" in line]) == 1


@pytest.mark.parametrize(("in_step", "arrive"), [(True, [2]), (False, [1, 2])])
def test_what_was_played_in_step_with_a_learner_that_ended_is_not_for_the_next(in_step, arrive):
    first = Learner()
    actor = Actor(first, "actor", in_step=in_step)
    with running(actor):
        with running(first):
            first.receiver.publish([np.zeros(3, np.float32)], 5000)
            eventually(lambda: actor.link.announce(0.1))
            before = actor.link.learner_process
        eventually(lambda: not actor.link.is_connected)
        actor.link.put(np.array([[1], [1]]), 1)
        with running(again := Learner(address=first.address)):
            again.receiver.publish([np.zeros(3, np.float32)], 4801)
            eventually(lambda: actor.link.is_connected)
            assert actor.link.learner_process == before  # whose weights may still be in use
            assert actor.put([2])
            assert actor.link.learner_process != before
            assert again.take(len(arrive)) == arrive
            assert again.receiver.take(0.3) is None


@pytest.mark.parametrize("call", ["write", "put", "weights"])
def test_no_call_reaches_a_learner_that_was_started_again_in_the_place_of_the_one_it_is_for(
    secure_ends, call
):
    """gRPC connects anew by itself."""
    block = np.zeros(8, np.uint8)
    with secure_server(secure_ends) as (first, connection):
        first.announce(b"first")
        first.publish(block, 5000)
        assert connection.about() == b"first" and connection.write(b"letter") == 5000
        first.close()
        host, port = connection._learner.split(":")
        again = secure_ends.server(host, int(port), lambda _: None)
        again.publish(block, 4801)
        given = {"write": (b"letter",), "put": (block, block), "weights": (TIMEOUT_S,)}[call]
        with pytest.raises(Lost, match="it was started again"):
            getattr(connection, call)(*given)
        assert again.hear(0.0) is None
        again.close()


def test_a_learner_keeps_no_block_for_another_that_is_not_there():
    """It would be taken for one of now when that is back."""
    first = Learner()
    mine = Actor(first, "learner 1", of_learner=True)
    with running(mine):
        with running(first):
            first.receiver.publish([np.zeros(3, np.float32)], 0)
            assert mine.put([1]) and first.take(1) == [1]
            eventually(lambda: mine.link.announce(0.1))
        eventually(lambda: not mine.link.is_connected)
        assert not mine.link.announce(0.2)
        with running(again := Learner(address=first.address)):
            again.receiver.publish([np.zeros(3, np.float32)], 0)
            assert mine.put([2]) and again.take(1) == [2]


def test_what_does_not_pass_by_itself_is_told_also_after_what_does():
    said: list[str] = []
    telling = Telling(said.append, "box:8001", TIMEOUT_S, of_learner=False)
    for error in (Lost("Connection refused"), Lost("Socket closed"), *[Lasting("no TLS")] * 2):
        telling.waits(error)
    assert [line.split(" (")[1] for line in said] == ["Connection refused).", "no TLS)."]


@pytest.mark.parametrize("why", ["certificate is not yet valid", "certificate has expired"])
def test_a_clock_that_is_wrong_is_not_taken_for_another_run(secure_ends, why):
    class Failed(grpc.RpcError):
        """What gRPC raises then."""

        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

        def details(self) -> str:
            return f"Ssl handshake failed: CERTIFICATE_VERIFY_FAILED: {why}"

    def call() -> None:
        raise Failed

    with pytest.raises(Lasting, match="by the clock of this machine") as failed:
        secure_ends.connection("localhost", 1)._run(call)
    assert not isinstance(failed.value, Stranger)


def test_an_actor_in_step_asks_calmly_until_the_first_weights_are_there(monkeypatch):
    asked: list[float] = []
    weights = secure.Connection.weights

    def counted(self: secure.Connection, limit_s: float) -> Any:
        asked.append(time.monotonic())
        return weights(self, limit_s)

    monkeypatch.setattr(secure.Connection, "weights", counted)
    learner = Learner()
    actor = Actor(learner, "actor", in_step=True)
    with running(learner, actor):
        eventually(lambda: actor.link.is_connected)
        time.sleep(1)
        assert len(asked) < 30
        learner.receiver.publish([np.ones(3, np.float32)], 1)
        assert actor.put([1]) and actor.weights == [(1, [1, 1, 1])]


def test_a_learner_outlasts_another_that_comes_back_with_other_settings_until_it_is_right():
    def comes(level: str) -> Learner:
        made = Learner(address=first.address, level=level)
        made.receiver.publish([np.zeros(3, np.float32)], 0)
        return made

    first = Learner()
    first.receiver.publish([np.zeros(3, np.float32)], 0)
    mine = Actor(first, "learner 1", of_learner=True)
    with running(mine):
        with running(first):
            assert mine.put([1])
        words = "refuses this learner: level is B there and A here"
        with running(mistyped := comes("B")):
            eventually(lambda: words in str(mine.link.refusal))
            eventually(lambda: any("level is B here and A there" in x for x in mistyped.printed))
            time.sleep(1.5)  # for another try
            assert not mine.link.is_connected
        with running(again := comes("A")):
            assert mine.put([2]) and mine.put([3])
            assert mine.link.refusal is None
            assert again.take(1)[-1] in (2, 3)  # the first may have gone with the one before
    assert len([line for line in mine.printed if words in line]) == 1


def test_a_learner_leaves_another_that_has_finished_and_is_there_when_it_comes_back():
    first = Learner()
    first.receiver.publish([np.zeros(3, np.float32)], 0)
    mine = Actor(first, "learner 1", of_learner=True)
    with running(mine):
        with running(first):
            assert mine.put([1]) and first.take(1) == [1]
            first.receiver.finish()
            eventually(lambda: mine.link.is_finished and not mine.link.is_connected)
            time.sleep(1.5)  # for another try
            assert not mine.put([2], seconds=0.2)
        assert mine.link.is_finished  # while nobody is there, too
        with running(again := Learner(address=first.address)):
            again.receiver.publish([np.zeros(3, np.float32)], 0)
            assert mine.put([3]) and again.take(1) == [3]
            assert not mine.link.is_finished
    assert len([line for line in first.printed if "learner 1 has joined" in line]) == 1
    assert len([line for line in mine.printed if "(it has finished)" in line]) == 1


def test_an_actor_reports_a_learner_without_tls():
    with socket.create_server(("localhost", 0)) as plain:
        port = plain.getsockname()[1]

        def answer() -> None:
            with contextlib.suppress(OSError), plain.accept()[0] as caller:
                caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                caller.recv(4096)

        threading.Thread(target=answer, daemon=True).start()
        connection = Learner.carrier.connection("localhost", port)
        with pytest.raises(Lost, match="does not use TLS: is it a learner with --transport=secure"):
            connection.about()


def test_a_plain_actor_reports_a_learner_with_tls(secure_ends):
    with secure_server(secure_ends) as (_, there):
        host, port = there._learner.split(":")
        plain = distributed.Connection(host, int(port), TIMEOUT_S)
        with pytest.raises(Lost, match="is it a learner with --transport=tensorflow"):
            plain.about()
        plain.close()


def test_large_blocks_and_weights_arrive_unchanged(secure_ends):
    layout = Layout([ArraySpec(np.dtype(np.uint8), (None, 3 * calls.PIECE + 5))])
    heavy = Layout([ArraySpec(np.dtype(np.float32), (calls.PIECE,))])
    sent = [np.random.default_rng(1).integers(0, 255, [2, 3 * calls.PIECE + 5], np.uint8)]
    weights = np.random.default_rng(2).random(calls.PIECE).astype(np.float32)
    with secure_server(secure_ends, most_bytes=layout.size(2)) as (made, connection):
        receiver = Receiver(
            made, make_identity({}, layout.digest()), layout, heavy,
            capacity=2, timeout_s=TIMEOUT_S, say=lambda _: None,
        )  # fmt: skip
        with receiver:
            receiver.publish([weights], 5)
            print_of = messages.fingerprint(make_identity({}, layout.digest()))
            header = messages.Header(print_of, b"a" * 16, 1, 2, 0.0).pack()
            connection.put(header, layout.pack(sent, 2))
            taken = receiver.take(10)
            assert taken is not None and (taken[0] == sent[0]).all()
            eventually(lambda: connection.weights(TIMEOUT_S)[1] == 5)
            (got,) = heavy.unpack(connection.weights(TIMEOUT_S)[0])
            assert (got == weights).all()


def test_weights_that_take_too_long_do_not_end_the_connection(secure_ends):
    with secure_server(secure_ends) as (made, connection):
        made.publish(np.ones(calls.PIECE, np.uint8), 3)
        with pytest.raises(Silent):
            connection.weights(0.0)
        assert connection.weights(TIMEOUT_S)[1] == 3


def test_a_learner_that_takes_no_blocks_keeps_none(secure_ends):
    header, block = np.zeros(48, np.uint8), BLOCKS.pack(np.zeros([2, 1], np.int64), 1)
    with secure_server(secure_ends) as (made, connection):
        host, port = connection._learner.split(":")
        answers: list[str] = []

        def put() -> None:
            mine = secure_ends.connection(host, int(port))
            try:
                mine.put(header, block)
                answers.append("taken")
            except Silent:
                answers.append("silent")
            mine.close()

        threads = [threading.Thread(target=put) for _ in range(2 * server.MOST_BLOCKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == ["silent"] * len(threads)
        # Their actors will send them again; the learner keeps none.
        eventually(lambda: not made._desk._blocks)
        threading.Thread(target=put).start()
        assert (made.receive()[1] == block).all()
        eventually(lambda: "taken" in answers)


def test_waiting_calls_end_when_the_learner_closes(secure_ends):
    with secure_server(secure_ends) as (made, connection):
        ended: list[type] = []

        def wait(call: Any) -> None:
            try:
                call()
            except (Lost, Closed) as error:
                ended.append(type(error))

        waiting = [
            threading.Thread(
                target=wait,
                args=(lambda: connection.put(np.zeros(1, np.uint8), np.zeros(8, np.uint8)),),
            ),
            threading.Thread(target=wait, args=(lambda: [made.receive() for _ in range(2)],)),
        ]
        for thread in waiting:
            thread.start()
        time.sleep(0.2)
        made.close()
        for thread in waiting:
            thread.join(20)
        assert Closed in ended
