"""Runs one session and writes how it ends; it outlives the lab, so nothing of it is lost.

    python lab/trials/keeper.py FOLDER SESSION_TIMEOUT_S SILENT_TIMEOUT_S CORES COMMAND...

It holds a lock in the session's folder, so that no session runs twice, and limits its time. TERM
ends the session with a checkpoint. ``session.json`` has process ids, and later the end.

CORES are those of the session, such as 0,1. On another machine, where nobody knows which are free,
it is +2 for any two. The session then ends, with a checkpoint, with the process that started it.
Of several GPUs the session sees the one that the fewest others have.
"""

import contextlib
import ctypes
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if not __package__:  # it runs alone, and what it imports is found from its file
    sys.path.insert(0, str(Path(__file__).parents[2]))

from lab.trials.claims import GPUS, claim, claim_gpu, held, locked, visible_gpus

STATE, LOCK, OUTPUT = "session.json", ".keeper", "output.txt"
# In the environment of a session, for which TERMs that come together are then one.
MARK = "IMPALA_SESSION"
# Files that a training makes newer: with each report, and while unrolls come without any.
SIGNS = ("metrics.jsonl", ".lock")
LOOK_EVERY_S = 0.2
# The most that counts between two looks: longer ones were a suspend, or it was stopped itself.
MOST_PASSED_S = 1.0
# Time to write a checkpoint after TERM; then the session is killed.
GRACE_S = 30.0
# A disk that is full may have room again; the end is written then.
WRITE_AGAIN_S = 2.0
NOTED_EVERY_S = 60.0
PR_SET_PDEATHSIG = 1  # of Linux's prctl
STOPPED, TIMED_OUT, SILENT = "stopped", "timed out", "hanging"
BUSY = 11  # the exit code of a keeper that found another


def main(arguments: list[str]) -> int:
    """Runs the session; returns 0 however it ends, because its end is in the file.

    Where another has the folder, the session does not begin, and it returns ``BUSY``.
    """
    folder, timeout, silent, cores, *command = arguments
    parent = os.getppid() if cores.startswith("+") else 0
    lock = open(Path(folder) / LOCK, "a")  # noqa: SIM115 (held until this process ends)
    while not locked(lock.fileno()):
        if not parent or os.getppid() != parent:
            return BUSY
        time.sleep(LOOK_EVERY_S)  # it still ends on a machine that was lost
    claimed = claim(int(cores)) if parent else held([int(core) for core in cores.split(",")])
    with contextlib.suppress(OSError):  # those cores may be offline
        os.sched_setaffinity(0, claimed)
    keeper = Keeper(Path(folder), float(timeout), float(silent), parent, claimed)
    if len(gpus := visible_gpus()) > 1:
        os.environ[GPUS] = claim_gpu(gpus)
    keeper.run(command, lock.fileno())
    return 0


def is_locked(folder: Path) -> bool:
    """Whether a keeper, or the session that it has left, holds a session's folder."""
    try:
        with open(folder / LOCK, "a") as file:
            return not locked(file.fileno())
    except OSError:
        return False


class Keeper:
    """One session, from its start to its end."""

    def __init__(
        self, folder: Path, timeout_s: float, silent_s: float, parent: int, cores: list[int]
    ):
        self._folder, self._timeout_s, self._silent_s = folder, timeout_s, silent_s
        self._parent = parent  # ends with this process; 0: with none
        self._ended_by = ""
        self._state: dict[str, Any] = {
            "started": time.time(),
            "host": socket.gethostname(),
            "folder": place(folder),
            "keeper": known(os.getpid()),
            "cores": cores,
            "ran": self._ran_before(),  # seconds
        }
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._write({"state": "running", "child": None})

    def run(self, command: list[str], lock: int) -> None:
        """Runs the command in a process group of its own, and writes how it ended.

        The command holds the lock, too: while it lives, no other starts in this folder.
        """
        ends = ending_with_parent() if self._parent else None

        def prepare() -> None:
            # The end of a user's session sends TERM and HUP to all; HUP would end it unsaved.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            if ends:
                ends()

        with open(self._folder / OUTPUT, "ab") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, pass_fds=[lock],
                preexec_fn=prepare,  # noqa: PLW1509 (there are no threads)
            )  # fmt: skip
        try:
            self._state["child"] = known(process.pid)
            self._write({"state": "running"})
            code = self._wait(process)
        finally:
            kill_group(process.pid)  # what it may have left behind
        end = {"state": "ended", "code": code, "ended_by": self._ended_by, "ended": time.time()}
        self._write(end)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """Waits for its end; counts only time in which the session could run, too."""
        silent, ran, reported = 0.0, self._state["ran"], self._reported()
        asked, before = math.inf, time.monotonic()
        while (code := process.poll()) is None:
            now = time.monotonic()
            passed, before = min(now - before, MOST_PASSED_S), now
            ran, last, reported = ran + passed, reported, self._reported()
            silent = silent + passed if reported == last else 0.0
            if ran - self._state["ran"] > NOTED_EVERY_S:  # in case this process is killed
                self._state["ran"] = ran
                self._write({"state": "running"}, waits=False)
            if not self._ended_by and self._timeout_s and ran > self._timeout_s:
                self._ended_by = TIMED_OUT
            if not self._ended_by and silent > self._silent_s:
                self._ended_by = SILENT
            if self._parent and os.getppid() != self._parent:
                self._ended_by = self._ended_by or STOPPED
            if self._ended_by and asked == math.inf:
                asked = ran
                process.terminate()  # not its group: it needs its workers to save
            if ran - asked > GRACE_S:
                kill_group(process.pid)
            time.sleep(LOOK_EVERY_S)
        self._state["ran"] = ran
        return code

    def _ran_before(self) -> float:
        """The seconds for which the session ran before it was stopped, or its keeper killed."""
        try:
            return float(json.loads((self._folder / STATE).read_text()).get("ran", 0.0))
        except (OSError, ValueError):
            return 0.0

    def _reported(self) -> list[int]:
        """What changes with each sign of life: times of files, by whatever clock."""
        times = []
        for name in SIGNS:
            with contextlib.suppress(OSError):
                times.append((self._folder / name).stat().st_mtime_ns)
        return times

    def _write(self, state: dict[str, Any], waits: bool = True) -> None:
        """Writes what there is to know of the session, with how it stands; waits for room."""
        path = self._folder / STATE
        temporary = path.with_name(f".{STATE}.{os.getpid()}.tmp")
        while self._folder.is_dir():
            try:
                temporary.write_text(json.dumps({**self._state, **state}))
                os.replace(temporary, path)
                return
            except OSError:
                if not waits:
                    return
                time.sleep(WRITE_AGAIN_S)

    def _on_signal(self, *_: object) -> None:
        self._ended_by = self._ended_by or STOPPED


def place(folder: Path) -> list[int]:
    """The device and inode of a folder: they stay when it is renamed, and a copy has others."""
    found = folder.stat()
    return [found.st_dev, found.st_ino]


def ending_with_parent() -> Callable[[], None]:
    """What a new process calls first, so that it gets TERM when this one is killed."""
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM) and None


def known(pid: int) -> dict[str, Any]:
    """A process as it can be recognised later, also when its number is another's.

    Ticks since the boot are compared: seconds since the epoch change with the clock.
    """
    return {"pid": pid, "since": _ticks(pid), "boot": _boot()}


def is_alive(process: dict[str, Any] | None) -> bool:
    """Whether that very process is running."""
    if not process or process["since"] is None:
        return False
    return process == known(int(process["pid"]))


def _ticks(pid: int) -> int | None:
    """When a process was started; None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold spaces and parentheses itself.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def kill_group(pid: int) -> None:
    """Kills a process group, if it is still there."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
