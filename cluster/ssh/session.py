"""Runs one command over a connection, with a time limit."""

import threading

import paramiko


def run(
    client: paramiko.SSHClient, command: str, text: str, seconds: float
) -> tuple[int, str, str]:
    """Runs a command with a text as its input; returns exit code, output and errors.

    ``TimeoutError``: it took longer, and the connection is closed.
    """
    transport = client.get_transport()
    if transport is None:
        raise EOFError
    late = threading.Event()

    def give_up() -> None:
        late.set()
        transport.close()

    channel = transport.open_session(timeout=seconds)
    # Some of paramiko's waits have no timeout; closing the connection ends them all.
    alarm = threading.Timer(seconds, give_up)
    alarm.daemon = True
    alarm.start()
    try:
        with channel:
            done = _talk(channel, command, text)
    except (OSError, EOFError, paramiko.SSHException):
        if late.is_set():
            raise TimeoutError from None
        raise
    finally:
        alarm.cancel()
    if late.is_set():  # the output may be incomplete
        raise TimeoutError
    return done


def _talk(channel: paramiko.Channel, command: str, text: str) -> tuple[int, str, str]:
    channel.exec_command(command)
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
