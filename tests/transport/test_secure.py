"""The secure transport: answers to strangers and faulty callers, and the learner's reports."""

import collections
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
    reported_once,
    running,
)
from transport import make_identity, messages, secure
from transport.secure import calls, listening
from transport.secure.calls import Opening
from transport.secure.guard import Guard

import grpc  # isort: skip (not before transport.secure, which sets how it logs)

pytestmark = pytest.mark.usefixtures("secure_ends")


METHODS = (calls.HELLO, calls.TELL, calls.PUT, calls.WEIGHTS)


@contextlib.contextmanager
def channel(learner: Learner, tls: bool = True) -> Iterator[grpc.Channel]:
    """A caller that is not one of our actors but knows the certificate."""
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
    """The status of a call."""
    try:
        channel.unary_unary(method)(message, timeout=10, metadata=metadata)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def test_callers_without_the_token_are_refused_and_reported_once(learner):
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
    reported_once(learner, "a call from 127.0.0.1 was refused: it came without the token")
    assert all(token.hex() not in line for line in learner.printed)


def test_data_from_strangers_is_not_read(learner):
    def endless() -> Iterator[bytes]:
        while True:
            sent.append(1)
            yield bytes(calls.PIECE)

    sent: list[int] = []
    with channel(learner) as stranger, pytest.raises(grpc.RpcError) as error:
        stranger.stream_unary(calls.PUT)(endless(), timeout=20)
    assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
    # The connection's buffers fill before the answer arrives.
    assert len(sent) < 100


def test_no_other_method_can_be_called_even_with_the_token(learner):
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


def test_clients_without_tls_are_cut_off_and_reported_once(learner):
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
    reported_once(learner, f"a client connected to {learner.host}:{learner.port} and made no call")


def test_clients_with_tls_but_without_grpc_are_cut_off_and_reported_once(learner):
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
    reported_once(learner, "made no call")


def test_silent_clients_are_cut_off(learner):
    with socket.create_connection((learner.host, learner.port)) as stranger:
        stranger.settimeout(60)
        # Without a handshake in time, the learner ends the connection.
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(4096):
                pass
    reported_once(learner, "made no call")


def test_grpc_clients_that_fall_silent_are_cut_off(monkeypatch):
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
        # The start of HTTP/2, with empty settings.
        stranger.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):
            while stranger.recv(4096):
                pass
        reported_once(idle, "made no call")


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "connections"),
    [
        (1024, 4096, (1536, 4096), 1024),
        (1024, -1, (1536, -1), 1024),
        (1024, 1024, (1024, 1024), 512),
        (4096, 4096, None, 1024),
        (-1, -1, None, 1024),
    ],
)
def test_connections_leave_files_for_checkpoints(monkeypatch, soft, hard, raised, connections):
    done: list[tuple[int, int]] = []
    monkeypatch.setattr(listening.resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(listening.resource, "setrlimit", lambda _, both: done.append(both))
    limits = dict(listening.options(5.0))
    assert limits["grpc.max_allowed_incoming_connections"] == connections
    assert done == ([raised] if raised else [])


def test_connections_beyond_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 2)
    small = Learner()
    with running(small), contextlib.ExitStack() as stack:
        token = (calls.TOKEN, small.carrier.actor.token)
        held = [stack.enter_context(channel(small)) for _ in range(4)]
        answers = [code(one, calls.HELLO, token) for one in held]
        assert answers.count("OK") == 2 and answers.count("UNAVAILABLE") == 2


@pytest.mark.parametrize("method", METHODS[:3])
def test_messages_beyond_the_limit_are_refused_and_reported_once(learner, method):
    token = (calls.TOKEN, learner.carrier.actor.token)
    with channel(learner) as clumsy:
        for size in (calls.LARGEST_MESSAGE + 1, 40 << 20):
            answer = code(clumsy, method, token, message=bytes(size))
            assert answer in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT")
    reported_once(learner, "was refused")


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
def test_malformed_blocks_are_refused_with_a_reason_and_reported_once(learner, messages, words):
    token = (calls.TOKEN, learner.carrier.actor.token)
    with channel(learner) as clumsy:
        put = clumsy.stream_unary(calls.PUT)
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as error:
                put(iter(messages), timeout=10, metadata=(token,))
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert words in error.value.details()
    reported_once(learner, words)


def test_an_actor_stopped_during_a_call_is_not_reported_as_malformed(learner):
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
    reported_once(learner, "or none, or its sender was stopped")
    with pytest.raises(calls.CutOff, match="or its sender was stopped"):
        calls.join(iter([bytes(3)]), 5)


@pytest.mark.parametrize(
    "letter",
    [
        b"{}", b"[]", b"null", b"[" * 60_000, b'{"actor": "zz", "name": "x", "kind": "hello"}',
        b'{"actor": "00", "name": {}, "kind": [], "identity": 3}',
        pytest.param(os.urandom(1000), id="noise"),
    ],
)  # fmt: skip
def test_malformed_letters_change_nothing(learner, letter):
    connection = learner.connection()
    for _ in range(3):
        connection.write(letter)
    connection.close()


def test_an_actors_name_cannot_control_the_terminal(learner):
    connection = learner.connection()
    letter = {"kind": "hello", "actor": "00" * 16, "name": "a\x1b[2J\nb" + "c" * 1000}
    identity = make_identity(learner.properties, BLOCKS.digest())
    connection.write(messages.encode(letter | {"identity": identity}))
    eventually(lambda: "has joined" in str(learner.printed))
    connection.close()
    (joined,) = [line for line in learner.printed if "has joined" in line]
    assert joined.startswith("a?[2J?bccc") and len(joined) < 200


def test_a_call_that_comes_while_silent_clients_are_looked_for_is_waited_for():
    class Waiting(collections.deque[float]):
        def __bool__(self) -> bool:
            """Lets a call come, which takes the only client away, where that is possible."""
            there = len(self) > 0
            call = threading.Thread(target=guard.called, args=("ipv4:10.0.0.1:2",), daemon=True)
            if threading.current_thread() is threading.main_thread():
                call.start()
                call.join(0.2)
            return there

    told: list[str] = []
    guard = Guard(b"token", "here:1", 0.0, told.append)
    guard._silent = Waiting([-1.0])
    guard.look()
    assert len(told) == 1 and told[0].startswith("a client connected to here:1")
