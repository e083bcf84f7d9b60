"""An actor's end: calls to a learner authenticated by the certificate that the actor has."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc
import numpy as np

from credentials import NAME, Credentials
from transport.messages import Lasting, Lost, Refused, Silent, Stranger
from transport.secure import calls
from transport.secure.calls import Malformed, Opening

Answer = TypeVar("Answer")

OPTIONS = [
    *calls.LIMITS,
    ("grpc.ssl_target_name_override", NAME),
    # An actor connects directly and reconnects by itself: no proxies from the environment, no
    # connections shared with earlier attempts, no hidden retries.
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]
# Familiar reasons, to be found in gRPC's long messages.
REASONS = (
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "No route to host",
    "Network is unreachable",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Socket closed",
)


class Connection:
    """See ``transport.connection``; once the learner is gone, all calls raise ``Lost``."""

    def __init__(self, host: str, port: int, credentials: Credentials, timeout_s: float):
        self._learner = f"{host}:{port}"
        self._file = credentials.path
        self._job = "learner" if credentials.key else "actor"
        self._channel = grpc.secure_channel(
            self._learner, grpc.ssl_channel_credentials(credentials.certificate), OPTIONS
        )
        self._more: dict[str, Any] = {
            "timeout": timeout_s,
            "metadata": ((calls.TOKEN, credentials.token),),
        }
        self._hello = self._channel.unary_unary(calls.HELLO)
        self._tell = self._channel.unary_unary(calls.TELL)
        self._put = self._channel.stream_unary(calls.PUT)
        self._weights = self._channel.unary_stream(calls.WEIGHTS)

    def about(self) -> bytes:
        """What the learner announced about itself.

        Further calls are for its process: where it ends, gRPC leads them to the next one there.
        """

        def ask() -> bytes:
            about, call = self._hello.with_call(b"", **self._more)
            process = [one for one in call.initial_metadata() or () if one[0] == calls.PROCESS]
            self._more["metadata"] = (*self._more["metadata"], *map(tuple, process))
            return about

        return self._run(ask)

    def write(self, letter: bytes) -> int:
        """Sends a letter to the learner; returns the version of its weights."""
        return _version(self._run(lambda: self._tell(letter, **self._more)))

    def put(self, header: np.ndarray, block: np.ndarray) -> int:
        """Adds a block; ``Silent`` when there was no room in time. Returns the weights' version."""

        def messages() -> Iterator[bytes]:
            yield Opening(block.nbytes, header.tobytes()).pack()
            yield from calls.cut(block)

        return _version(self._run(lambda: self._put(messages(), **self._more), keep=True))

    def weights(self, limit_s: float) -> tuple[np.ndarray, int]:
        """The newest weights and their version; ``Silent`` when they took longer."""

        def fetch() -> tuple[np.ndarray, int]:
            messages = self._weights(b"", **self._more | {"timeout": limit_s})
            opening = Opening.unpack(next(messages))
            return calls.join(messages, opening.size), _version(opening.more)

        return self._run(fetch, keep=True)

    def close(self) -> None:
        """Ends the connection and all calls."""
        self._channel.close()

    def _run(self, call: Callable[[], Answer], keep: bool = False) -> Answer:
        """The answer to a call; a failure closes the connection.

        One that concerns this call alone, a timeout or what it carries, may ``keep`` it.
        """
        try:
            return call()
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                if not keep:
                    self.close()
                raise Silent from None
            if not keep or error.code() != grpc.StatusCode.INVALID_ARGUMENT:
                self.close()
            raise self._meaning(error) from None
        except (Malformed, StopIteration) as error:
            self.close()
            raise Lost(f"its answer is malformed: {error}") from None
        except ValueError:  # the connection was closed meanwhile
            raise Lost("the connection is closed") from None

    def _meaning(self, error: Any) -> Exception:
        """The exception for the actor after a failed call."""
        code, details = error.code(), str(error.details())
        if code == grpc.StatusCode.UNAUTHENTICATED:
            return Refused(
                f"the learner at {self._learner} does not accept the token in {self._file}, "
                "which is of another run."
            )
        if "certificate is not yet valid" in details or "certificate has expired" in details:
            return Lasting(
                "by the clock of this machine its certificate is not valid now: set the clocks of "
                "both, for example with chrony"
            )
        if "CERTIFICATE_VERIFY_FAILED" in details:
            return Stranger(
                f"its certificate is not the one in {self._file}: that is of another run, or "
                "another server answers in its place"
            )
        if code == grpc.StatusCode.INVALID_ARGUMENT:
            return Refused(f"the learner at {self._learner} refuses this {self._job}: {details}.")
        if "WRONG_VERSION_NUMBER" in details:
            return Lasting("it does not use TLS: is it a learner with --transport=secure?")
        for reason in REASONS:
            if reason in details:
                return Lost(reason)
        return Lost(details.split("\n")[0][-200:])


def _version(packed: bytes) -> int:
    if len(packed) != calls.VERSION.size:
        raise Lost("its answer is malformed")
    return calls.VERSION.unpack(packed)[0]
