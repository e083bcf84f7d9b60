"""Commands over a connection, each with a time limit: one that ends, one that is kept."""

import contextlib
from collections.abc import Iterator

import paramiko

from cluster.ssh.alarms import Alarms

MOST_ERRORS = 1 << 16


class Ended(Exception):
    """A command that was to be kept has ended instead; says how."""

    def __init__(self, code: int, errors: str):
        super().__init__(errors)
        self.code = code
        self.errors = errors


def run(
    client: paramiko.SSHClient, command: str, text: str, seconds: float, alarms: Alarms
) -> tuple[int, str, str]:
    """Runs a command with a text as its input; returns exit code, output and errors.

    ``TimeoutError``: it took longer, and the connection is closed.
    """
    with _limited(client, seconds, alarms) as transport:
        channel = transport.open_session(timeout=seconds)
        with channel:
            return _talk(channel, command, text)


class Kept:
    """A command that answers each line with a line after a mark, as often as it is asked."""

    def __init__(
        self,
        client: paramiko.SSHClient,
        command: str,
        first: bytes,
        mark: str,
        seconds: float,
        alarms: Alarms,
    ):
        """Starts the command, which reads ``first`` before anything else."""
        self.client = client
        self._mark = mark.encode()
        self._alarms = alarms
        self._errors = b""
        with _limited(client, seconds, alarms) as transport:
            self._channel = transport.open_session(timeout=seconds)
            self._channel.exec_command(command)
            with contextlib.suppress(OSError):  # it may have ended; its errors say why
                self._channel.sendall(first)

    def ask(self, line: str, seconds: float) -> str:
        """The answer to a line; ``Ended`` if the command is gone."""
        with _limited(self.client, seconds, self._alarms):
            with contextlib.suppress(OSError):
                self._channel.sendall(f"{line}\n".encode())
            return self._answer()

    def end(self) -> None:
        """Ends the command's input, and with it the command."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def close(self, seconds: float = 0.0) -> None:
        """Closes it, after waiting for the command's end for so long."""
        self.end()
        self._channel.status_event.wait(seconds)
        self._channel.close()

    def _answer(self) -> str:
        # Whatever a login shell's start-up files print comes before the mark; what follows it may
        # have the same letters, as a line of a log.
        found, output = b"", bytearray()
        while data := self._channel.recv(1 << 16):
            output += data
            self._read_errors()
            if data.endswith(b"\n"):
                _, found, answer = bytes(output).partition(self._mark)
                if found:
                    return answer.decode("utf-8", "replace")
        while self._read_errors():
            pass
        if not self._channel.get_transport().is_active():  # its end is not the command's
            raise EOFError("it was cut off")
        raise Ended(self._channel.recv_exit_status(), self._errors.decode("utf-8", "replace"))

    def _read_errors(self) -> bool:
        """Reads what is there, or, at the end, what still comes: else the host would wait."""
        if not (self._channel.recv_stderr_ready() or self._channel.eof_received):
            return False
        data = self._channel.recv_stderr(1 << 16)
        self._errors = (self._errors + data)[-MOST_ERRORS:]
        return bool(data)


@contextlib.contextmanager
def _limited(
    client: paramiko.SSHClient, seconds: float, alarms: Alarms
) -> Iterator[paramiko.Transport]:
    """The connection; it is closed, and ``TimeoutError`` raised, if it takes longer."""
    transport = client.get_transport()
    if transport is None:
        raise EOFError
    # Some of paramiko's waits have no timeout; closing the connection ends them all.
    with alarms.within(seconds, transport.close) as late:
        try:
            yield transport
        except (OSError, EOFError, paramiko.SSHException):
            if late.is_set():
                raise TimeoutError from None
            raise
    if late.is_set():  # the output may be incomplete
        raise TimeoutError


def _talk(channel: paramiko.Channel, command: str, text: str) -> tuple[int, str, str]:
    channel.exec_command(command)
    with contextlib.suppress(OSError):  # it may end, and say why, before it has read everything
        channel.sendall(text.encode())
        channel.shutdown_write()
    output, errors = bytearray(), bytearray()
    while data := channel.recv(65536):
        output += data
    while data := channel.recv_stderr(65536):
        errors += data
    if not channel.get_transport().is_active():  # its end is not the command's
        raise EOFError("it was cut off")
    texts = [bytes(one).decode("utf-8", "replace") for one in (output, errors)]
    return channel.recv_exit_status(), texts[0], texts[1]
