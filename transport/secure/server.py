"""The learner's end: a gRPC server with four methods, for callers with the token."""

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np

from credentials import Credentials
from transport.in_process import Closed
from transport.messages import FINISHED
from transport.secure import calls
from transport.secure.calls import CutOff, Malformed, Opening
from transport.secure.desk import Desk
from transport.secure.guard import Guard
from transport.secure.listening import MOST_CONNECTIONS, listen, options

MOST_CALLS = 2 * MOST_CONNECTIONS  # an actor may send a block and a letter at once
# Blocks in transit or waiting to be taken; others wait at their actors.
MOST_BLOCKS = 8
LONGEST_WAIT_S = 3600.0
ENDS_WITHIN_S = 5.0


class Server:
    """See ``transport.receiver.Server``."""

    def __init__(
        self,
        host: str,
        port: int,
        credentials: Credentials,
        *,
        most_bytes: int,
        timeout_s: float,
        say: Callable[[str], None],
    ):
        """``most_bytes`` is the size of the largest block that is accepted."""
        self._desk = Desk()
        self._process = uuid.uuid4().hex
        self._guard = Guard(credentials.token, f"{host}:{port}", timeout_s, say)
        self._most_bytes = most_bytes
        self._room = threading.Semaphore(MOST_BLOCKS)
        self._server = grpc.server(
            ThreadPoolExecutor(MOST_CALLS, "call"),
            options=options(timeout_s),
            maximum_concurrent_rpcs=MOST_CALLS,
        )
        self._server.add_generic_rpc_handlers([_Reception(self._guard, self._methods())])
        listen(self._server, host, port, credentials, self._connected, say)
        self._started = False
        self._server.start()
        self._started = True

    def announce(self, about: bytes) -> None:
        """Sets what the learner answers to a new actor."""
        self._desk.about = about

    def publish(self, weights: np.ndarray, version: int) -> None:
        """Offers packed weights; ``FINISHED`` as their version makes actors leave."""
        self._desk.publish(weights, version)

    def receive(self) -> tuple[np.ndarray, np.ndarray]:
        """The next block with its header; waits for it."""
        return self._desk.receive()

    def hear(self, timeout_s: float) -> bytes | None:
        """The next letter; None when none came in time."""
        self._guard.look()
        return self._desk.hear(timeout_s)

    def close(self) -> None:
        """Ends all calls; waiting ones raise ``Closed``."""
        self._desk.close()
        self._server.stop(0.1).wait(ENDS_WITHIN_S)

    def _connected(self) -> None:
        if self._started:  # gRPC also asks for the certificate when it opens ports
            self._guard.connected()

    # Calls. All read their messages themselves, so that they notice unreadable ones.

    def _methods(self) -> dict[str, Any]:
        one, many = grpc.stream_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        return {
            calls.HELLO: one(self._answering(self._hello)),
            calls.TELL: one(self._answering(self._tell)),
            calls.PUT: one(self._answering(self._put)),
            # Its request is empty, so it cannot be malformed.
            calls.WEIGHTS: many(self._weights),
        }

    def _answering(self, call: Callable[[Iterator[bytes], Any], bytes]) -> Callable:
        def answer(messages: Iterator[bytes], context: Any) -> bytes | None:
            peer = context.peer()
            self._guard.called(peer)
            self._must_be_meant(context)
            try:
                return call(messages, context)
            except Malformed as error:
                self._guard.refuse(type(error).__name__, peer, str(error))
                code, reason = grpc.StatusCode.INVALID_ARGUMENT, str(error)
            except Closed:
                code, reason = grpc.StatusCode.UNAVAILABLE, "the learner is shutting down"
            except TimeoutError:
                code, reason = grpc.StatusCode.DEADLINE_EXCEEDED, "no room"
            return context.abort(code, reason)

        return answer

    def _must_be_meant(self, context: Any) -> None:
        """Ends a call to a process that was here before; its caller then begins anew."""
        meant = dict(context.invocation_metadata()).get(calls.PROCESS, self._process)
        if meant != self._process:
            context.abort(grpc.StatusCode.UNAVAILABLE, "it was started again")

    def _weights(self, _: Iterator[bytes], context: Any) -> Iterator[bytes]:
        self._must_be_meant(context)
        return iter(self._desk.weights)

    def _hello(self, messages: Iterator[bytes], context: Any) -> bytes:
        _first(messages, context)
        context.send_initial_metadata(((calls.PROCESS, self._process),))
        return self._desk.about

    def _tell(self, messages: Iterator[bytes], context: Any) -> bytes:
        letter = _first(messages, context)
        if not 0 < len(letter) <= calls.LONGEST_LETTER:
            raise Malformed(f"a letter of {len(letter):,} bytes")
        if not self._desk.tell(letter, _wait_s(context)):
            raise TimeoutError
        return calls.VERSION.pack(self._desk.version)

    def _put(self, messages: Iterator[bytes], context: Any) -> bytes:
        opening = Opening.unpack(_first(messages, context))
        if opening.size > self._most_bytes:
            raise Malformed(
                f"a block of {opening.size:,} bytes, where {self._most_bytes:,} are allowed. Give "
                "the actor a lower --envs_per_actor, or its learner a higher one"
            )
        if not self._room.acquire(timeout=_wait_s(context)):
            raise TimeoutError
        try:
            if self._desk.version != FINISHED:
                block = calls.join(messages, opening.size)
                header = np.frombuffer(opening.more, np.uint8)
                if not self._desk.put(header, block, _wait_s(context)):
                    raise TimeoutError
        finally:
            self._room.release()
        return calls.VERSION.pack(self._desk.version)


class _Reception(grpc.GenericRpcHandler):
    """Finds the method of a call; without the token, only a refusal."""

    def __init__(self, guard: Guard, methods: dict[str, Any]):
        self._guard = guard
        self._methods = methods
        # It reads nothing that the caller sends.
        self._refusal = grpc.stream_unary_rpc_method_handler(self._refuse)

    def service(self, handler_call_details: Any) -> Any:
        """A handler; None where there is no such method."""
        if not self._guard.knows(handler_call_details.invocation_metadata):
            return self._refusal
        return self._methods.get(handler_call_details.method)

    def _refuse(self, _: Iterator[bytes], context: Any) -> None:
        self._guard.called(context.peer())
        self._guard.refuse("token", context.peer(), "it came without the token of this run")
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "")


def _first(messages: Iterator[bytes], context: Any) -> bytes:
    """The first message of a call, which gRPC itself ends if it is too large."""
    first = None
    try:
        first = next(messages, None)
    except grpc.RpcError:
        if not context.time_remaining():
            raise
    if first is None:
        # gRPC reports a message that it refused and a sender that is gone in the same way.
        raise CutOff(f"a message of more than {calls.LARGEST_MESSAGE:,} bytes, or none")
    return first


def _wait_s(context: Any) -> float:
    return min(context.time_remaining(), LONGEST_WAIT_S)
