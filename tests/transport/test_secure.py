"""The secure transport: what strangers and clumsy callers get, and what the learner tells of it."""

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.transport.ends import (
    BLOCKS,
    MOST_BYTES,
    Learner,
    eventually,
    running,
    told_once,
)
from transport import make_identity, messages, secure
from transport.secure import calls, listening
from transport.secure.calls import Opening

import grpc  # isort: skip (not before transport.secure, which sets how it logs)

pytestmark = pytest.mark.usefixtures("secure_ends")


METHODS = (calls.HELLO, calls.TELL, calls.PUT, calls.WEIGHTS)


@contextlib.contextmanager
def channel(learner: Learner, tls: bool = True) -> Iterator[grpc.Channel]:
    """A caller that is no actor of ours, but knows the certificate."""
    if tls:
        trusted = grpc.ssl_channel_credentials(learner.carrier.actor.certificate)
        with grpc.secure_channel(learner.address, trusted, secure.connection.OPTIONS) as made:
            yield made
    else:
        with grpc.insecure_channel(learner.address) as made:
            yield made


def code(
    channel: grpc.Channel, method: str, *metadata: tuple[str, Any], message: bytes = b""
) -> str:
    """What a call is answered with."""
    try:
        channel.unary_unary(method)(message, timeout=10, metadata=metadata)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def test_who_does_not_know_the_token_gets_nothing_and_is_told_of_once(learner):
    token = learner.carrier.actor.token
    strangers = [
        (),
        (("token-bin", b""),),
        (("token-bin", os.urandom(32)),),
        (("token-bin", token[:-1]),),
        (("token-bin", token + b"x"),),
        (("token-bin", token), ("token-bin", os.urandom(32))),
        (("authorization", "Bearer " + token.hex()),),
    ]
    with channel(learner) as stranger:
        for metadata in strangers:
            for method in (*METHODS, "/impala.Learner/Other"):
                assert code(stranger, method, *metadata) == "UNAUTHENTICATED"
    told_once(learner, "a call from 127.0.0.1 was refused: it came without the token")
    assert all(token.hex() not in line for line in learner.said)


def test_what_a_stranger_sends_is_not_read(learner):
    def endless() -> Iterator[bytes]:
        while True:
            sent.append(1)
            yield bytes(calls.PIECE)

    sent: list[int] = []
    with channel(learner) as stranger, pytest.raises(grpc.RpcError) as error:
        stranger.stream_unary(calls.PUT)(endless(), timeout=20)
    assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
    # What fits into buffers of the connection goes out before the answer comes.
    assert len(sent) < 100


def test_nothing_else_can_be_called_even_with_the_token(learner):
    token = (calls.TOKEN, learner.carrier.actor.token)
    others = (
        "/impala.Learner/Other", "/impala.Learner/", "/", "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/tensorflow.MasterService/CreateSession", "/tensorflow.WorkerService/RunGraph",
        "/tensorflow.eager.EagerService/Enqueue",
    )  # fmt: skip
    with channel(learner) as insider:
        for method in others:
            assert code(insider, method, token) == "UNIMPLEMENTED"
        assert code(insider, calls.HELLO, token) == "OK"


def test_who_does_not_speak_tls_is_cut_off_and_told_of_once(learner):
    with channel(learner, tls=False) as plain:
        for method in METHODS:
            assert code(plain, method, (calls.TOKEN.replace("-bin", ""), "x")) == "UNAVAILABLE"
    for _ in range(5):
        with socket.create_connection((learner.host, learner.port)) as stranger:
            stranger.settimeout(10)
            with contextlib.suppress(OSError):
                for _ in range(20):
                    stranger.sendall(os.urandom(4096))
                while stranger.recv(4096):
                    pass
    told_once(learner, f"a client connected to {learner.host}:{learner.port} and made no call")


def test_who_speaks_tls_but_not_grpc_is_cut_off_and_told_of_once(learner):
    trusting = ssl.create_default_context(cadata=learner.carrier.actor.certificate.decode())
    for protocols in (["h2"], ["http/1.1"], []):
        trusting.set_alpn_protocols(protocols or ["x"])
        with (
            contextlib.suppress(OSError),
            socket.create_connection((learner.host, learner.port)) as bare,
            trusting.wrap_socket(bare, server_hostname="impala-learner") as stranger,
        ):
            stranger.settimeout(10)
            for _ in range(20):
                stranger.sendall(os.urandom(4096))
            while stranger.recv(4096):
                pass
    told_once(learner, "made no call")


def test_who_connects_and_is_silent_is_cut_off(learner):
    with socket.create_connection((learner.host, learner.port)) as stranger:
        stranger.settimeout(60)
        # Without a handshake within its time, the other side ends the connection.
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(4096):
                pass
    told_once(learner, "made no call")


def test_who_speaks_grpc_and_then_is_silent_is_cut_off(monkeypatch):
    monkeypatch.setattr(listening, "LONGEST_IDLE_S", 1.0)
    idle = Learner()
    trusting = ssl.create_default_context(cadata=idle.carrier.actor.certificate.decode())
    trusting.set_alpn_protocols(["h2"])
    with (
        running(idle),
        socket.create_connection((idle.host, idle.port)) as bare,
        trusting.wrap_socket(bare, server_hostname="impala-learner") as stranger,
    ):
        stranger.settimeout(60)
        # How HTTP/2 begins, with settings that change nothing.
        stranger.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):
            while stranger.recv(4096):
                pass
        told_once(idle, "made no call")


def test_more_connections_than_are_allowed_are_refused(monkeypatch):
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 2)
    small = Learner()
    with running(small), contextlib.ExitStack() as stack:
        token = (calls.TOKEN, small.carrier.actor.token)
        held = [stack.enter_context(channel(small)) for _ in range(4)]
        answers = [code(one, calls.HELLO, token) for one in held]
        assert answers.count("OK") == 2 and answers.count("UNAVAILABLE") == 2


@pytest.mark.parametrize("method", METHODS[:3])
def test_a_message_of_more_than_the_limit_is_refused_and_told_of_once(learner, method):
    token = (calls.TOKEN, learner.carrier.actor.token)
    with channel(learner) as clumsy:
        for size in (calls.LARGEST_MESSAGE + 1, 40 << 20):
            answer = code(clumsy, method, token, message=bytes(size))
            assert answer in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT")
    told_once(learner, "was refused")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "or none"),
        ([b"short"], "no valid opening"),
        ([bytes(2000)], "no valid opening"),
        ([Opening(100, b"").pack()], "do not add up to 100 bytes"),
        ([Opening(100, b"").pack(), bytes(50)], "do not add up to 100 bytes"),
        ([Opening(100, b"").pack(), bytes(101)], "do not add up to 100 bytes"),
        ([Opening(100, b"").pack(), b""], "do not add up to 100 bytes"),
        ([Opening(MOST_BYTES + 1, b"").pack()], f"{MOST_BYTES:,} are allowed"),
        ([Opening(2**63, b"").pack()], f"{MOST_BYTES:,} are allowed"),
    ],
)
def test_a_block_that_is_none_is_refused_in_words_and_told_of_once(learner, messages, words):
    token = (calls.TOKEN, learner.carrier.actor.token)
    with channel(learner) as clumsy:
        put = clumsy.stream_unary(calls.PUT)
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as error:
                put(iter(messages), timeout=10, metadata=(token,))
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert words in error.value.details()
    told_once(learner, words)


def test_an_actor_that_is_stopped_as_it_calls_is_not_said_to_have_sent_nonsense(learner):
    def unfinished() -> Iterator[bytes]:
        ended.wait(60)
        yield from ()

    ended = threading.Event()
    token = (calls.TOKEN, learner.carrier.actor.token)
    with channel(learner) as stopped:
        call = stopped.stream_unary(calls.PUT).future(unfinished(), timeout=60, metadata=(token,))
        eventually(lambda: learner.receiver._server._guard._callers)
        assert not call.done()
    ended.set()
    told_once(learner, "or none, or its sender was stopped")
    with pytest.raises(calls.CutOff, match="or its sender was stopped"):
        calls.join(iter([bytes(3)]), 5)


@pytest.mark.parametrize(
    "letter",
    [
        b"{}", b"[]", b"null", b"[" * 60_000, b'{"actor": "zz", "name": "x", "kind": "hello"}',
        b'{"actor": "00", "name": {}, "kind": [], "identity": 3}', os.urandom(1000),
    ],
)  # fmt: skip
def test_letters_that_are_none_change_nothing(learner, letter):
    connection = learner.connection()
    for _ in range(3):
        connection.write(letter)
    connection.close()


def test_what_an_actor_calls_itself_cannot_change_the_terminal(learner):
    connection = learner.connection()
    letter = {"kind": "hello", "actor": "00" * 16, "name": "a\x1b[2J\nb" + "c" * 1000}
    identity = make_identity(learner.told, BLOCKS.digest())
    connection.write(messages.encode(letter | {"identity": identity}))
    eventually(lambda: "has joined" in str(learner.said))
    connection.close()
    (joined,) = [line for line in learner.said if "has joined" in line]
    assert joined.startswith("a?[2J?bccc") and len(joined) < 200
