"""The rewarder and clients that are not as expected."""

import functools
import json
import socket
import threading
import time

import pytest
from websockets.sync.client import ClientConnection, connect

from environments.realtime import messages, password
from environments.realtime.messages import Message
from environments.remote import rewarder as server
from environments.remote.rewarder import Rewarder

DEEP = '{"method": ' + "[" * 30_000


@pytest.fixture
def rewarder():
    made = Rewarder("127.0.0.1", 0, "secret", lambda: Message(messages.DESCRIBE))
    yield made
    if made._thread.is_alive():
        made.close()


def client(rewarder: Rewarder) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{rewarder.port}", proxy=None, compression=None)


@pytest.mark.parametrize(
    "text",
    [
        Message(messages.PROOF, {"proof": "né"}).encoded(),
        Message(messages.PROOF, {"proof": "\ud800"}).encoded(),
        '{"method": "a", "headers": {"sent_at": 0, "message_id": Infinity}, "body": {}}',
        DEEP,
        "[]",
    ],
    ids=["accent", "half", "infinite", "deep", "list"],
)
def test_strangers_are_turned_away_without_a_word_in_the_log(rewarder, text, caplog):
    with client(rewarder) as one:
        one.recv()
        one.send(text)
        rest = [json.loads(line)["body"] for line in one]
    assert rest in ([], [{"error": "wrong password"}])
    assert not caplog.records


def test_a_client_that_reads_nothing_is_let_go(rewarder):
    with client(rewarder) as one:
        challenge = messages.decoded(one.recv()).body["challenge"]
        proof = password.proof("secret", challenge)
        one.send(Message(messages.PROOF, {"proof": proof}).encoded())
        assert [messages.decoded(one.recv()).method for _ in range(2)][1] == messages.DESCRIBE
        goes_on = threading.Event()
        one.protocol.receive_data = lambda data: goes_on.wait(60)  # type: ignore[assignment]
        until, body = time.monotonic() + 60, {"text": "x" * 60_000}
        while rewarder._clients:
            assert time.monotonic() < until
            rewarder.tell(Message(messages.REWARD, body))
            time.sleep(0.001)
        goes_on.set()
        one.socket.close()


def test_a_client_that_has_said_nothing_does_not_keep_it_from_ending(monkeypatch):
    patient = functools.partial(server.serve, open_timeout=None)  # it would wait for ever
    monkeypatch.setattr(server, "serve", patient)
    made = Rewarder("127.0.0.1", 0, "secret", lambda: Message(messages.DESCRIBE))
    with socket.create_connection(("127.0.0.1", made.port)):
        time.sleep(0.2)
        made.close()
    assert not made._thread.is_alive()


def test_a_client_that_is_stopped_does_not_delay_the_end(rewarder):
    goes_on = threading.Event()
    with client(rewarder) as one:
        challenge = messages.decoded(one.recv()).body["challenge"]
        proof = password.proof("secret", challenge)
        one.send(Message(messages.PROOF, {"proof": proof}).encoded())
        assert [messages.decoded(one.recv()).method for _ in range(2)][1] == messages.DESCRIBE
        one.protocol.receive_data = lambda data: goes_on.wait(60)  # type: ignore[assignment]
        begun = time.monotonic()
        rewarder.close()
        assert time.monotonic() - begun < 5
        goes_on.set()
        one.socket.close()
