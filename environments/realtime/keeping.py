"""Keeps an environment's remote there: starts or reaches it, and does so again when it is gone."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from environments import held_folders
from environments.names import DESCRIPTIONS, find
from environments.realtime import password
from environments.realtime.link import Address, Link
from environments.realtime.rfb import Refused
from environments.remote.folder import PREFIX
from user_error import UserError

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
AWAITED_PAUSE_S = 5.0  # at most, while a run waits for it to begin
LOOKS_EVERY_S = 0.2
STARTS_WITHIN_S = 60.0
ENDS_WITHIN_S = 3.0
TELLS_WITHIN_S = 1.0
ANNOUNCES = "remote "
MISTAKE = 2  # the exit code of a remote that another try would not help
KEPT = 4096  # bytes of what a remote complains of


class Source(Protocol):
    """Where remotes come from."""

    packed: bool  # whether a network may lie between

    async def find(self) -> tuple[Address, str]:
        """The address and the password of a remote; starts it where that is its matter."""

    def check(self, described: dict[str, Any]) -> None:
        """Refuses a remote that describes another world than that which is played."""

    def look(self) -> str:
        """The command that shows the desktop of what was started, or ""."""

    async def drop(self) -> str:
        """Ends what was started; returns what it said if it had ended by itself, or "".

        A ``UserError`` says what it has ended for if another try would not help.
        """


class Elsewhere:
    """A remote that somebody else has started."""

    packed = True  # also at loopback, where tunnels begin

    def __init__(
        self, address: Address, secret: str, served: str, fps: float, made_with: Mapping[str, str]
    ) -> None:
        """``served``, ``fps`` and ``made_with`` are the world that is to be there."""
        self._found = (address, secret)
        self._served, self._fps, self._made_with = served, fps, made_with

    async def find(self) -> tuple[Address, str]:
        return self._found

    def check(self, described: dict[str, Any]) -> None:
        served, fps = str(described.get("env_id")), float(described.get("fps") or 0.0)
        if not _is_same(served, self._served) or fps != self._fps:
            raise UserError(
                f"{self._found[0]} serves {served} with --fps={fps:g}, expected {self._served} "
                f"with --fps={self._fps:g}. Give it and --level_name=vnc:… the same."
            )
        for name, expected in self._made_with.items():
            # Remotes of older versions do not tell it.
            if (told := described.get(name, expected)) != expected:
                raise UserError(
                    f"{self._found[0]} serves {served} with --{name}={told}, expected "
                    f"--{name}={expected}. Give it and --level_name=vnc:… the same."
                )

    def look(self) -> str:
        return ""  # whoever has started it knows

    async def drop(self) -> str:
        return ""  # it is not ours


class StartedHere:
    """A process of ours, which ends with this one."""

    packed = False

    def __init__(self, serve: Sequence[str]) -> None:
        """``serve`` are the flags of ``python -m environments.remote serve``."""
        # -P: the current folder may have packages of the same names.
        self._command = ["-P", "-m", "environments.remote", "serve", "--with_parent", *serve]
        self._process: asyncio.subprocess.Process | None = None
        self._folder = held_folders.new_path(PREFIX)
        self._complaints = b""
        self._look = ""
        self.pid: int | None = None

    async def find(self) -> tuple[Address, str]:
        root = Path(__file__).resolve().parents[2]
        pipe = asyncio.subprocess.PIPE
        self._folder = held_folders.new_path(PREFIX)
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, *self._command, f"--folder={self._folder}"),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=_environment(root),
            process_group=0,  # Ctrl-C is for this process, which ends the other one when it is done
        )
        self.pid = process.pid
        assert process.stdout and process.stderr
        self._listening = asyncio.create_task(self._listen(process.stderr))
        async with asyncio.timeout(STARTS_WITHIN_S):
            line = await _announcement(process.stdout)
        self._reading = asyncio.create_task(_read(process.stdout))
        address, file = parse_announcement(line)
        self._look = address.look(file)
        return address, password.read(file, "--password_file")

    def check(self, described: dict[str, Any]) -> None:
        pass  # it was started with the flags of this process

    def look(self) -> str:
        return self._look

    async def drop(self) -> str:
        """Asks it to end, and insists: a frozen process hears nothing."""
        process, self._process = self._process, None
        if process is None:
            return ""
        assert process.stdin
        process.stdin.close()
        try:
            async with asyncio.timeout(ENDS_WITHIN_S):
                await process.wait()
        except TimeoutError:
            _kill(process)
            with contextlib.suppress(TimeoutError):  # somebody else may hold its pipes
                async with asyncio.timeout(ENDS_WITHIN_S):
                    await process.wait()
        except asyncio.CancelledError:  # nobody waits any longer
            _kill(process)
            held_folders.remove(self._folder)
            raise
        # One that was killed has left it, with its password.
        await asyncio.to_thread(held_folders.remove, self._folder)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TELLS_WITHIN_S):
                await self._listening
        told = self._complaints.decode(errors="replace").strip().rpartition("\n")[2]
        if process.returncode == MISTAKE:
            raise UserError(told.removeprefix("remote: "))
        return told.removeprefix("remote: ") if process.returncode else ""

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        self._complaints = b""
        while data := await stream.read(KEPT):
            self._complaints = (self._complaints + data)[-KEPT:]


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kills it with all that it has started: it leads a group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Keeper:
    """Offers a seat one connection after the other."""

    def __init__(
        self,
        name: str,
        source: Source,
        lag_ms: float,
        offer: Callable[[Link | None], None],
        given_up: Callable[[], str],
        say: Callable[[str], None],
        keys: Collection[str] = (),
    ) -> None:
        """``keys`` are those that may be held on the desktop of a remote."""
        self._name, self._source, self._lag_ms = name, source, lag_ms
        self._keys = sorted(keys)
        self._offer, self._given_up, self._say = offer, given_up, say
        self.error: Exception | None = None  # that another try would not help against
        self._has_played = False  # so that what is wrong now may pass

    async def keep(self) -> None:
        """Goes on until it is cancelled, or there is no use.

        What it awaits has limits of ``asyncio.timeout``: ``wait_for`` of Python 3.11 forgets a
        cancellation that comes just when it is done.
        """
        try:
            await self._keep()
        except (UserError, Refused) as error:
            self.error = UserError(f"{self._name}: {error}")
        except Exception as error:
            self.error = error
        finally:
            with contextlib.suppress(UserError):
                await self._source.drop()

    async def _keep(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            try:
                reason = await self._one()
            except (OSError, EOFError, TimeoutError, ValueError) as error:
                reason = str(error) or "it does not answer"
            except (UserError, Refused) as error:
                if not self._has_played:
                    raise
                reason = str(error)
            reason += f" ({told})" if (told := await self._last_words()) else ""
            if time.monotonic() - started > LONGEST_PAUSE_S:
                pause = FIRST_PAUSE_S
            self._say(f"{self._name}: {reason}; next try in {pause:g} s.")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S if self._has_played else AWAITED_PAUSE_S)

    async def _last_words(self) -> str:
        """What a source says that has ended by itself, or ""."""
        try:
            return await self._source.drop()
        except UserError as error:
            if not self._has_played:
                raise
            return str(error)

    async def _one(self) -> str:
        """Offers one connection until it is lost; returns the reason."""
        link = await self._connect()
        try:
            return await self._until_lost(link)
        finally:
            self._has_played = self._has_played or link.has_played
            self._offer(None)
            await link.close()

    async def _connect(self) -> Link:
        address, secret = await self._source.find()
        link = Link(address, self._lag_ms)
        try:
            await link.connect(secret, self._source.packed)
            self._source.check(link.described)
        except BaseException:
            await link.close()
            raise
        if self._source.packed:
            link.release(self._keys)
        self._offer(link)
        if look := self._source.look():
            self._say(f"{self._name}: look: {look}")
        return link

    async def _until_lost(self, link: Link) -> str:
        run = asyncio.create_task(link.run())
        try:
            while not run.done():
                await asyncio.wait([run], timeout=LOOKS_EVERY_S)
                if reason := self._given_up():
                    return f"{link.address} is frozen: {reason}"
            return run.result()
        finally:
            run.cancel()


async def _announcement(stream: asyncio.StreamReader) -> str:
    """The line that names a remote, after whatever its level may have printed."""
    while line := (await stream.readline()).decode(errors="replace"):
        if line.startswith(ANNOUNCES):
            return line
    raise OSError("a remote ended while it started")


async def _read(stream: asyncio.StreamReader) -> None:
    """Takes what nobody needs, since a full pipe would block its writer."""
    while await stream.read(KEPT):
        pass


def parse_announcement(line: str) -> tuple[Address, str]:
    """The address and the password's file in what a remote prints."""
    words = line.split(maxsplit=4)
    if len(words) != 5 or words[0] != ANNOUNCES.strip():
        raise OSError(f"a remote has printed {line.strip()!r}")
    return parse_address(words[1], "a remote"), words[4].strip()


def parse_address(text: str, told: str) -> Address:
    """An address as ``--remotes`` takes it."""
    host, _, ports = text.strip().rpartition(":")
    desktop, plus, rewarder = ports.partition("+")
    if not (host and plus and _is_port(desktop) and _is_port(rewarder)):
        raise UserError(
            f"{told}: {text!r}: expected host:port+port, the ports (1 to 65535) of a desktop and "
            "its rewarder, such as 127.0.0.1:5901+15901."
        )
    return Address(host.strip("[]"), int(desktop), int(rewarder))


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= 65535


def _is_same(served: str, expected: str) -> bool:
    """Whether two names are those of one world, such as pong and PongNoFrameskip-v4."""
    if _without_folder(served) == _without_folder(expected):
        return True
    with contextlib.suppress(UserError):  # of files, and where nothing has such a name
        return find(served) == find(expected)
    return False


def _without_folder(served: str) -> str:
    """A world without the folder of its file, which may be another on another host."""
    is_file = served.endswith(DESCRIPTIONS)
    return Path(served.removeprefix("browser:")).name if is_file else served


def _environment(root: Path) -> dict[str, str]:
    # What is in the current folder is found last, as here: it may have names of Python's own.
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**one, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
