"""Runs one session and writes how it ends; it outlives the lab, so nothing of it is lost.

    python lab/trials/keeper.py FOLDER SESSION_TIMEOUT_S SILENT_TIMEOUT_S CORES COMMAND...

It holds a lock in the session's folder, so that no session runs twice, and limits its time. TERM
ends the session with a checkpoint. ``session.json`` has process ids, and later the end.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

STATE, LOCK, OUTPUT = "session.json", ".keeper", "output.txt"
LOOK_EVERY_S = 0.2
# Time to write a checkpoint after TERM; then the session is killed.
GRACE_S = 30.0
# A disk that is full may have room again; the end is written then.
WRITE_AGAIN_S = 2.0
STOPPED, TIMED_OUT, SILENT = "stopped", "timed out", "hanging"


def main(arguments: list[str]) -> int:
    """Runs the session; returns 0 however it ends, because its end is in the file."""
    folder, timeout, silent, cores, *command = arguments
    lock = open(Path(folder) / LOCK, "a")  # noqa: SIM115 (held until this process ends)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    with contextlib.suppress(OSError):  # those cores may be offline
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    Keeper(Path(folder), float(timeout), float(silent)).run(command)
    return 0


class Keeper:
    """One session, from its start to its end."""

    def __init__(self, folder: Path, timeout_s: float, silent_s: float):
        self._folder, self._timeout_s, self._silent_s = folder, timeout_s, silent_s
        self._ended_by = ""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def run(self, command: list[str]) -> None:
        """Runs the command in a process group of its own, and writes how it ended."""
        started = time.time()
        with open(self._folder / OUTPUT, "ab") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        try:
            state = {"started": started, "keeper": known(os.getpid()), "child": known(process.pid)}
            self._write({"state": "running", **state})
            code = self._wait(process, started)
        finally:
            kill_group(process.pid, signal.SIGKILL)  # what it may have left behind
        end = {"state": "ended", "code": code, "ended_by": self._ended_by, "ended": time.time()}
        self._write({**state, **end})

    def _wait(self, process: subprocess.Popen[bytes], started: float) -> int:
        asked = 0.0
        while (code := process.poll()) is None:
            now = time.time()
            if not self._ended_by and self._timeout_s and now - started > self._timeout_s:
                self._ended_by = TIMED_OUT
            if not self._ended_by and now - max(started, self._reported()) > self._silent_s:
                self._ended_by = SILENT
            if self._ended_by and not asked:
                asked = now
                process.terminate()  # not its group: it needs its workers to save
            if asked and now - asked > GRACE_S:
                kill_group(process.pid, signal.SIGKILL)
            time.sleep(LOOK_EVERY_S)
        return code

    def _reported(self) -> float:
        """When the session last reported."""
        try:
            return (self._folder / "metrics.jsonl").stat().st_mtime
        except OSError:
            return 0.0

    def _write(self, state: dict[str, Any]) -> None:
        path = self._folder / STATE
        temporary = path.with_name(f".{STATE}.{os.getpid()}.tmp")
        while self._folder.is_dir():
            try:
                temporary.write_text(json.dumps(state))
                os.replace(temporary, path)
                return
            except OSError:
                time.sleep(WRITE_AGAIN_S)

    def _on_signal(self, *_: object) -> None:
        self._ended_by = self._ended_by or STOPPED


def known(pid: int) -> dict[str, float]:
    """A process as it can be recognised later, also when its number is another's."""
    return {"pid": pid, "since": psutil.Process(pid).create_time()}


def is_alive(process: dict[str, float] | None) -> bool:
    """Whether that very process is running."""
    try:
        found = psutil.Process(int(process["pid"])) if process else None
        return bool(
            found
            and process
            and abs(found.create_time() - process["since"]) < 1.0
            and found.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.Error:
        return False


def kill_group(pid: int, number: int) -> None:
    """Signals a process group, if it is still there."""
    with contextlib.suppress(OSError):
        os.killpg(pid, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
