"""The secure transport: what strangers and clumsy callers get, and what the learner tells of it."""

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.transport.ends import (
    BLOCKS,
    MOST_BYTES,
    TIMEOUT_S,
    Actor,
    Learner,
    Secure,
    eventually,
    running,
)
from transport import Closed, Layout, Receiver, Refused, make_identity, messages, secure
from transport.layout import ArraySpec
from transport.messages import Lost, Silent
from transport.secure import calls, listening, server
from transport.secure.calls import Opening
from user_error import UserError

import grpc  # isort: skip (not before transport.secure, which sets how it logs)

pytestmark = pytest.mark.usefixtures("secure_ends")

METHODS = (calls.HELLO, calls.TELL, calls.PUT, calls.WEIGHTS)
ONCE = "This is told once."


@pytest.fixture
def learner() -> Iterator[Learner]:
    """One that goes on whatever happens: at the end, an actor of its own is served."""
    made = Learner()
    with running(made):
        made.receiver.publish([np.zeros(3, np.float32)], 0)
        yield made
        with running(actor := Actor(made, "actor")):
            assert actor.put([7])
            assert made.take(1) == [7]


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


def told_once(learner: Learner, words: str) -> None:
    eventually(lambda: any(words in line for line in learner.said))
    assert len([line for line in learner.said if ONCE in line]) == 1, learner.said


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
    told_once(learner, f"somebody connected to {learner.host}:{learner.port} and made no call")


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
        ([b"short"], "no proper beginning"),
        ([bytes(2000)], "no proper beginning"),
        ([Opening(100, b"").pack()], "not of 100 bytes"),
        ([Opening(100, b"").pack(), bytes(50)], "not of 100 bytes"),
        ([Opening(100, b"").pack(), bytes(101)], "not of 100 bytes"),
        ([Opening(100, b"").pack(), b""], "not of 100 bytes"),
        ([Opening(MOST_BYTES + 1, b"").pack()], f"{MOST_BYTES:,} are the most"),
        ([Opening(2**63, b"").pack()], f"{MOST_BYTES:,} are the most"),
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
    told_once(learner, "or none, or its sender was stopped meanwhile")
    with pytest.raises(calls.CutOff, match="or its sender was stopped meanwhile"):
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


def test_a_block_larger_than_the_learner_takes_ends_its_actor_with_words(learner):
    actor = Actor(learner, "large")
    told = "are the most. Give the actor a lower --envs_per_actor"
    with running(actor), pytest.raises(Refused, match=told):
        actor.put(list(range(2000)))
        actor.put([1])


def test_an_actor_of_another_run_is_refused_and_ends_with_words(learner, tmp_path):
    other = Secure(tmp_path / "other")
    stranger = secure.Connection(
        learner.host,
        learner.port,
        # The right certificate, as anyone can fetch it, and a token of another run.
        type(other.actor)("actor.pem", learner.carrier.actor.certificate, other.actor.token),
        TIMEOUT_S,
    )
    with pytest.raises(Refused, match="does not know the token in actor.pem"):
        stranger.about()


def test_an_actor_refuses_a_learner_with_another_certificate_and_sends_it_nothing(tmp_path):
    mine, other = Secure(tmp_path / "mine"), Secure(tmp_path / "other")
    impostor = Learner()
    with running(impostor):
        Learner.carrier = mine
        actor = Actor(impostor, "actor")
        with running(actor), pytest.raises(Refused, match="its certificate is not the one in"):
            actor.put([1])
        told_once(impostor, "made no call: an actor that gave up, a port scan")
    assert not any("joined" in line for line in impostor.said)
    assert other.actor.token != mine.actor.token


def test_a_learner_of_the_other_transport_is_told_to_an_actor():
    with socket.create_server(("localhost", 0)) as plain:
        port = plain.getsockname()[1]

        def answer() -> None:
            with contextlib.suppress(OSError), plain.accept()[0] as caller:
                caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                caller.recv(4096)

        threading.Thread(target=answer, daemon=True).start()
        connection = Learner.carrier.connection("localhost", port)
        with pytest.raises(Lost, match="does not speak TLS: is it one with --transport=secure"):
            connection.about()


def test_large_blocks_and_weights_arrive_as_they_were(secure_ends):
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
            eventually(lambda: connection.weights()[1] == 5)
            (got,) = heavy.unpack(connection.weights()[0])
            assert (got == weights).all()


@contextlib.contextmanager
def secure_server(ends: Secure, **more: Any) -> Iterator[tuple[secure.Server, secure.Connection]]:
    """A server without a receiver, and a connection to it."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    given: dict[str, Any] = {"most_bytes": MOST_BYTES, "timeout_s": TIMEOUT_S}
    given |= {"say": lambda _: None} | more
    made = secure.Server("localhost", port, ends.learner, **given)
    connection = ends.connection("localhost", port)
    yield made, connection
    connection.close()
    made.close()


def test_blocks_that_nobody_takes_stay_with_their_actors_beyond_a_few(secure_ends):
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
        # Those will be sent again by their actors; none is kept.
        eventually(lambda: not made._desk._blocks)
        threading.Thread(target=put).start()
        assert (made.receive()[1] == block).all()
        eventually(lambda: "taken" in answers)


def test_who_waits_is_told_that_the_learner_ends(secure_ends):
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


def test_at_an_address_of_ipv6_none_of_ipv4_is_listened_at(secure_ends, ipv6_port):
    made = secure.Server(
        "[::1]", ipv6_port, secure_ends.learner,
        most_bytes=1, timeout_s=TIMEOUT_S, say=lambda _: None,
    )  # fmt: skip
    socket.create_connection(("::1", ipv6_port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ipv6_port))
    made.close()


def test_only_the_address_that_was_given_is_listened_at(secure_ends):
    with socket.socket() as probe:
        probe.bind(("127.0.0.5", 0))
        port = probe.getsockname()[1]
    made = secure.Server(
        "127.0.0.5", port, secure_ends.learner,
        most_bytes=1, timeout_s=TIMEOUT_S, say=lambda _: None,
    )  # fmt: skip
    socket.create_connection(("127.0.0.5", port)).close()
    for other in ("127.0.0.1", "127.0.0.6"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((other, port))
    made.close()


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("192.0.2.1", "Cannot assign requested address.*name an address of this machine"),
        ("no-such-host.invalid", "cannot listen there"),
    ],
)
def test_an_address_that_is_not_ours_is_told(secure_ends, host, words):
    with pytest.raises(UserError, match=words):
        secure.Server(
            host, 8001, secure_ends.learner, most_bytes=1, timeout_s=1.0, say=lambda _: None
        )


def test_a_port_in_use_is_told(secure_ends):
    with (
        secure_server(secure_ends) as (_, connection),
        pytest.raises(UserError, match="cannot listen there .Address already in use"),
    ):
        host, port = connection._learner.split(":")
        secure.Server(
            host, int(port), secure_ends.learner, most_bytes=1, timeout_s=1.0, say=lambda _: None
        )
