"""Supervises one process: keeps its log and its state, and restarts it if asked to.

    python -m cluster.on_host.keeper LOGDIR/cluster/NAME.spec.json

TERM, INT, HUP and QUIT end the process first, then the keeper. A process that does not end is
killed, after a TERM by the sender. The process writes its log itself, so that it survives the
keeper; the keeper shows the log where it runs, in a tmux window.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

from cluster.on_host.log_file import LogFile
from cluster.on_host.processes import MARK, NAME, boot_id, descendants, marked, send, start_time
from cluster.on_host.states import SILENT, claim, hold, is_stopped, write_whole

# Starts each line that the keeper writes to its process's log.
SAYS = "keeper: "
# What mpirun's -tag-output puts before each line of a learner, and also inside a line where two
# learners wrote at once.
TAG = re.compile(r"\[\d+,(\d+)\]<std(?:out|err)>:")
# A learner writes its first line long before, unless mpirun or an orted hangs.
SILENT_START_S = 60.0
LOOK_EVERY_S = 0.2
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
CUT_AGAIN_S = 60.0
# A process that ran so long has recovered: the next pause is a short one again.
RECOVERED_S = 300.0
# The sender of TERM may give a longer grace period than the start did, up to this.
LONGEST_GRACE_S = 3600.0


class Keeper:
    """Runs what a spec says until it ends, is not to be restarted, or a signal comes."""

    def __init__(self, spec: dict[str, Any]):
        self._spec = spec
        self._state_path = Path(spec["state"])
        self._log_path = Path(spec["log"])
        self._log_file = LogFile(self._log_path)
        self._cut_again_at = 0.0
        self._begin = self._shown = self._log_file.end()
        self._stopping = False
        self._grace_s = spec["grace_s"]
        self._restarts = 0
        self._heard = False
        self._state: dict[str, Any] = {}
        self._in_use = hold(spec["folder"])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._stop)
        # Ctrl-S in its window would block its next output, and with it the supervision.
        with contextlib.suppress(termios.error):
            terminal = termios.tcgetattr(sys.stdout)
            terminal[0] &= ~termios.IXON
            termios.tcsetattr(sys.stdout, termios.TCSANOW, terminal)

    def run(self) -> int:
        """Supervises the process; returns its last exit code."""
        if not self._is_mine():
            return 0
        pause = FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            code = self._run_once()
            if time.monotonic() - started > RECOVERED_S:
                pause = FIRST_PAUSE_S
            if self._stopping or code == 0 or self._restarts >= self._spec["restarts"]:
                state = "stopped" if self._stopping else "ended"
                self._write(state=state, exit_code=code, child=None)
                return code
            self._restarts += 1
            self._write(state="pausing", exit_code=code, child=None)
            self._log(f"failed with {code}; restarting in {pause:g} s")
            end = time.monotonic() + pause
            pause = min(2 * pause, LONGEST_PAUSE_S)
            while time.monotonic() < end and not self._stopping:
                time.sleep(LOOK_EVERY_S)
            if self._stopping:
                self._write(state="stopped")
                return code

    def _is_mine(self) -> bool:
        """Whether no other keeper of the run has this process."""
        self._claim = claim(self._state_path.with_suffix(".lock"), self._spec["run_id"])
        return self._claim is not None

    def _run_once(self) -> int:
        spec = self._spec
        env = {**os.environ, **dict(spec["env"]), MARK: spec["run_id"], NAME: spec["name"]}
        self._write(state="starting", child=None)
        if is_stopped(self._state_path.parent, spec["run_id"]):
            self._stopping = True  # the run was stopped while it was being started
            return 0
        self._heard = not spec["under_mpirun"]  # whether a learner has written anything
        with open(self._log_path, "ab") as log:
            try:
                # A session of its own: a terminal's signals reach it through the keeper only. The
                # end of a user's session sends TERM and HUP to all; HUP would end it unsaved.
                child = subprocess.Popen(
                    spec["argv"],
                    cwd=spec["folder"],
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_ignore_hangup,  # noqa: PLW1509 (there are no threads)
                    pass_fds=() if self._in_use is None else (self._in_use,),
                )
            except OSError as error:
                self._log(f"cannot be started: {error}")
                return 127
        self._write(state="running", child=[child.pid, start_time(child.pid)])
        return self._wait(child)

    def _wait(self, child: subprocess.Popen) -> int:
        started, asked_at = time.monotonic(), None
        while child.poll() is None:
            if self._stopping and asked_at is None:
                self._write(state="stopping")
                self._terminate(child)
                asked_at = time.monotonic()
            if asked_at is not None and time.monotonic() >= asked_at + self._grace_s:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            self._show()
            self._cut()
            self._watch_start(time.monotonic() - started)
            time.sleep(LOOK_EVERY_S)
        self._show()
        return child.returncode

    def _watch_start(self, seconds: float) -> None:
        """Reports an mpirun that starts no learner: its process runs, but may never get further."""
        state, since = self._state["state"], self._state["since"]
        if state == "running" and not self._heard and seconds > SILENT_START_S:
            self._write(state=SILENT, since=since)
            self._log(f"no learner has written anything for {seconds:.0f} s; see --action=status")
        elif state == SILENT and self._heard:
            self._write(state="running", since=since)

    def _terminate(self, child: subprocess.Popen) -> None:
        """Sends TERM, so that it can save; to the learners themselves rather than to mpirun.

        mpirun would pass it on, wait for its whole timeout however soon they end, and report a
        failure.
        """
        ranks = self._ranks(child) if self._spec["under_mpirun"] else []
        for pid, started in ranks:
            send(pid, started, signal.SIGTERM)
        if not ranks:
            child.terminate()

    def _ranks(self, child: subprocess.Popen) -> list[tuple[int, int]]:
        """The learners that an mpirun has started here."""
        below = descendants(child.pid)
        return [one for one in marked(self._spec["run_id"]) if one[0] in below]

    def _stop(self, number: int, _: object) -> None:
        self._stopping = True
        if number == signal.SIGTERM:
            self._grace_s = LONGEST_GRACE_S

    def _write(self, **changed: Any) -> None:
        self._state = {
            **self._state,
            "run_id": self._spec["run_id"],
            "attempt": self._spec.get("attempt", ""),
            "boot_id": boot_id(),
            "keeper": [os.getpid(), start_time(os.getpid())],
            "log_begin": self._begin,
            "restarts": self._restarts,
            "since": time.time(),
            **changed,
        }
        try:
            write_whole(self._state_path, json.dumps(self._state))
        except OSError:
            # Later the disk may be full: the process matters more than its recorded state.
            if self._state["state"] == "starting" and not self._restarts:
                raise

    def _log(self, text: str) -> None:
        with contextlib.suppress(OSError), open(self._log_path, "a") as log:
            log.write(f"{SAYS}{text}\n")

    def _cut(self) -> None:
        """Keeps the log within its limit."""
        most = self._spec.get("log_bytes", 0)
        if most and time.monotonic() >= self._cut_again_at:
            try:
                self._log_file.cut(most)
            except OSError:  # a full disk: the process matters more than its log
                self._cut_again_at = time.monotonic() + CUT_AGAIN_S

    def _show(self) -> None:
        try:
            begin, new = self._log_file.read(self._shown, 1 << 20)
            self._shown = begin + len(new)
            self._heard = self._heard or bool(TAG.search(new.decode("utf-8", "replace")))
            sys.stdout.buffer.write(new)
            sys.stdout.flush()
        except OSError:
            pass  # the window or the log's folder is gone: the process continues


def _ignore_hangup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(Keeper(json.loads(Path(sys.argv[1]).read_text())).run() & 255)
