"""A desktop of its own: an X server whose screen is served over VNC."""

import errno
import math
import os
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

from user_error import EndedOutside, UserError

PROGRAM = "Xtigervnc"
STARTS_WITHIN_S = 20.0
ENDS_WITHIN_S, LOOKS_EVERY_S = 2.0, 0.02
FIRST_DISPLAY, DISPLAYS = 1000, 30_000
LEAST_RATE = 60  # pictures a second that the server shows at most, as usual for it
ANY_FAMILY = 0xFFFF  # of addresses, in an X authority file


class Desktop:
    """A running X server. It ends with this process, however that ends."""

    def __init__(
        self,
        width: int,
        height: int,
        host: str,
        port: int,
        password_file: Path,
        folder: Path,
        fps: float = LEAST_RATE,
    ) -> None:
        """`port` 0 takes a free one; `folder` is private, holds the server's files and names it.

        `fps` are those of the world, each of whose frames is to be shown.
        """
        if not shutil.which(PROGRAM):
            raise UserError(
                f"there is no {PROGRAM} here: install Debian's tigervnc-standalone-server, as "
                "bin/setup --extra=vnc does."
            )
        self.port = port or free_port(host)
        authority = _authority(folder / "Xauthority")
        self._log = folder / "desktop.log"
        display, theirs = os.pipe()
        command = [
            *with_this_process(),
            PROGRAM,
            # A number of our own: the lowest free one may be that of a server that is just ending,
            # which would remove the new one's socket.
            f":{FIRST_DISPLAY + secrets.randbelow(DISPLAYS)}",
            *("-displayfd", str(theirs), "-auth", str(authority), "-nolisten", "tcp", "-noreset"),
            *("-geometry", f"{width}x{height}", "-depth", "24", "-desktop", folder.name),
            *("-FrameRate", str(max(LEAST_RATE, math.ceil(fps)))),
            *("-interface", number_of(host), "-rfbport", str(self.port), "-AlwaysShared"),
            *("-SecurityTypes", "VncAuth", "-rfbauth", str(password_file)),
            # Health checks and connections that are lost never log in, and are no attack.
            "-UseBlacklist=0",
            *("-AcceptCutText=0", "-SendCutText=0", "-AcceptSetDesktopSize=0"),
        ]
        try:
            with open(self._log, "wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs],
                    process_group=0,  # Ctrl-C is for this process; windows are closed first
                )
        finally:
            os.close(theirs)
        with open(display, "rb") as numbers:
            ready = select.select([numbers], [], [], STARTS_WITHIN_S)[0]
            # A whole line: the server would end if it could not write all of it.
            number = numbers.readline().strip() if ready else b""
        if not number:
            self.close()
            # Another display and another port may do.
            raise EndedOutside(f"{PROGRAM} does not start: {self._reason()}")
        self.environment = {"DISPLAY": f":{number.decode()}", "XAUTHORITY": str(authority)}

    def is_alive(self) -> bool:
        """Whether the server runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the server, and with it every window."""
        if self.is_alive():
            end(self._process)

    def _reason(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        told = [line.strip() for line in lines if "rror" in line or "fail" in line.lower()]
        return told[-1] if told else "it says nothing"


def with_this_process(number: str = "TERM") -> list[str]:
    """The beginning of a command that gets a signal when the process that starts it ends."""
    return ["setpriv", "--pdeathsig", number, "--"]


def end(process: subprocess.Popen) -> None:
    """Ends a process that leads a group, and the group: asks first, and insists after two seconds.

    What the process has started gets no time of its own once that has ended.
    """
    if process.returncode is not None:
        return  # its number may be another's by now
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, number)
        until = time.monotonic() + ENDS_WITHIN_S
        while exit_code(process) is None and time.monotonic() < until:
            time.sleep(LOOKS_EVERY_S)
    process.wait()


def exit_code(child: subprocess.Popen) -> int | None:
    """What a child has ended with, or None; until `end` it keeps its number, which names its group.

    The child's own `poll` would give its number to others.
    """
    found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def number_of(host: str) -> str:
    """One address of a host by name: the X server looks none up, and others would take several."""
    try:
        return host if ":" in host else socket.gethostbyname(host)
    except UnicodeError:  # two dots, or a part that is too long
        raise OSError(errno.EINVAL, "that is no name of a host") from None


def free_port(host: str) -> int:
    """A port that nobody listens at."""
    with _bound(host, 0) as one:
        return one.getsockname()[1]


def check_host(host: str) -> None:
    """Refuses an address at which nothing can listen here, and none, which would mean all."""
    if not host.strip():
        raise UserError(
            f"--host={host}: expected an address or a name of this host, such as 127.0.0.1; "
            "0.0.0.0 are all of its addresses."
        )
    try:
        _bound(host, 0).close()
    except OSError as error:
        raise UserError(
            f"--host={host}: nothing can listen there ({error.strerror}). Give an address or a "
            "name of this host."
        ) from None


def check_free(host: str, port: int, flag: str) -> None:
    """Refuses a port that is taken."""
    try:
        _bound(host, port).close()
    except OSError as error:
        raise UserError(
            f"{flag}={port}: nothing can listen at {host}:{port} ({error.strerror}). Choose "
            "another, or 0 for one that is free."
        ) from None


def _bound(host: str, port: int) -> socket.socket:
    """A socket at an address of this host."""
    number = number_of(host)
    one = socket.socket(socket.AF_INET6 if ":" in number else socket.AF_INET)
    try:
        if port:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((number, port))
    except OSError:
        one.close()
        raise
    return one


def _authority(path: Path) -> Path:
    """A file with a secret without which no program can use the X server."""
    name, secret = b"MIT-MAGIC-COOKIE-1", secrets.token_bytes(16)
    fields = (b"", b"", name, secret)  # of whatever address and display
    packed = b"".join(struct.pack(">H", len(field)) + field for field in fields)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(struct.pack(">H", ANY_FAMILY) + packed)
    return path
