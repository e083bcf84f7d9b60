"""One session: a training with its seed, as a process of ``experiment.py`` in a folder."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import psutil

from lab.trials import keeper
from trainer.machine.launching import PROJECT
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Store
from trainer.storage.records import METRICS, newest_metrics, read_metrics, write_whole
from user_error import NotWritten, UserError

RUNNING, ENDED, WAITING = "running", "ended", "waiting"
LONGEST_REASON = 300
LEAST_LEFT_S = 0.001  # 0 would be no limit
CHECKPOINTS = 2  # that a session writes at its end
MOST_STARTS = 3  # in a row after which it has not begun
LOGS, LOG_END = (keeper.OUTPUT, "train.log"), 20_000
LARGE = ("checkpoints", "replay")  # its folders that grow


class Process(Protocol):
    """A keeper, here or on another machine."""

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""

    def terminate(self) -> None:
        """Asks it to end the session."""


# Starts a keeper; given are its words, and what its environment has besides.
Launch = Callable[[list[str], Mapping[str, str]], Process]


class End(NamedTuple):
    """How a session ended."""

    good: bool
    reason: str  # why it did not end well


class Session:
    """A session's folder, and what is known of its process from the files there."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], seed: int):
        self.folder, self.seed = folder, seed
        self._settings = settings
        self._process: Process | None = None
        self._starts = 0  # in a row, of which all but perhaps the last have not begun it
        self._before: dict[str, Any] = {}  # what was written before the last one

    @property
    def settings(self) -> Settings:
        """All settings of the training."""
        return Settings(**{**self._settings, "seed": self.seed, "logdir": str(self.folder)})

    def state(self) -> str:
        """Whether it waits for its start, is running or has ended.

        A session whose keeper was killed waits again: it resumes from its last checkpoint. So
        does one that had no room for its end. On other machines, sessions end with the lab that has
        started them, which is the one to ask.
        """
        code = 0 if self._process is None else self._process.poll()
        if code is None or (code == keeper.BUSY and keeper.is_locked(self.folder)):
            return RUNNING
        written = self.written()
        if not written:
            return WAITING
        if written["state"] == ENDED:
            goes_on = written["ended_by"] == keeper.STOPPED or self.is_unsaved()
            return WAITING if goes_on else ENDED
        if not self._is_here(written):
            return WAITING
        if keeper.is_alive(written["keeper"]):
            return RUNNING
        if keeper.is_alive(written["child"]):  # without its keeper nobody limits its time
            keeper.kill_group(int(written["child"]["pid"]))
        return WAITING

    def _is_here(self, written: Mapping[str, Any]) -> bool:
        """Whether its process is one of this host, and of this folder: a copy has none."""
        here = {"host": socket.gethostname(), "folder": keeper.place(self.folder)}
        return all(written.get(name, one) == one for name, one in here.items())

    def written(self) -> dict[str, Any]:
        """What the keeper has written last."""
        try:
            return json.loads((self.folder / keeper.STATE).read_text())
        except (OSError, ValueError):
            return {}

    def is_unsaved(self) -> bool:
        """Whether it came to its end, but had no room to write that down."""
        written = self.written()
        return written.get("code") == NotWritten.code and not written["ended_by"]

    def has_room(self) -> bool:
        """Whether there is room for its last checkpoints, if there was none."""
        if not self.is_unsaved():
            return True
        sizes = [path.stat().st_size for path in self.folder.glob("checkpoints/*.npz")]
        return shutil.disk_usage(self.folder).free > CHECKPOINTS * max(sizes, default=0)

    def memory(self) -> int:
        """Bytes of memory that its processes on this machine have."""
        written = self.written()
        if not (written and self._is_here(written) and keeper.is_alive(written["keeper"])):
            return 0
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(int(written["keeper"]["pid"]))
            return sum(one.memory_info().rss for one in [own, *own.children(recursive=True)])
        return 0

    def start(
        self, cores: Sequence[int] | int, timeout_s: float, silent_s: float, launch: Launch
    ) -> None:
        """Starts it, or lets it go on from its last checkpoint; with these cores, or so many."""
        self.folder.mkdir(parents=True, exist_ok=True)
        experiment = [
            sys.executable,
            str(PROJECT / "experiment.py"),
            *config.to_flags(self._settings_left()),
        ]
        count = cores if isinstance(cores, int) else len(cores)
        which = f"+{count}" if isinstance(cores, int) else ",".join(map(str, cores))
        limits = [str(timeout_s), str(silent_s), which]
        words = [sys.executable, keeper.__file__, str(self.folder), *limits, *experiment]
        self._starts = 1 + (self._starts if self._has_not_begun() else 0)
        self._before = self.written()
        self._process = launch(words, {"OMP_NUM_THREADS": str(count), keeper.MARK: "1"})

    def never_begins(self) -> str:
        """Why it does not begin, however often it is started; empty where it may."""
        if self._process is None or self._starts < MOST_STARTS or not self._has_not_begun():
            return ""
        ended = f"its keeper ended with {self._process.poll()}"
        why = getattr(self._process, "problem", ended)  # which the one on another machine has
        return f"not begun after {self._starts} starts: {why}"

    def _has_not_begun(self) -> bool:
        """Whether the last start is over, and has left nothing of the session's own process."""
        code = 0 if self._process is None else self._process.poll()
        if self._process is None or code in (None, keeper.BUSY):
            return False
        written = self.written()
        return written == self._before or not written.get("child")

    def _settings_left(self) -> Settings:
        """Its settings; it has the seconds left that its newest checkpoint has not used."""
        settings = self.settings
        most, found = settings.learning.stop_after_s, None
        if most:
            with contextlib.suppress(UserError):  # which the training will say
                found = Store(self.folder / "checkpoints", keep=1).newest(lambda _: None)
        if not found:
            return settings
        left = most - found[1].counters.get("wall_time", 0.0)
        return settings.replace(stop_after_s=max(LEAST_LEFT_S, left))

    def stop(self) -> None:
        """Asks it to end with a checkpoint; it can go on later."""
        written = self.written()
        if written and self._is_here(written) and keeper.is_alive(written["keeper"]):
            with contextlib.suppress(OSError):
                os.kill(int(written["keeper"]["pid"]), signal.SIGTERM)
        elif self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def end(self) -> End:
        """How it ended."""
        written, rows = self.written(), self.rows()
        if written.get("ended_by"):
            return End(False, f"{written['ended_by']} after {self.took():.0f} s")
        if code := written.get("code"):
            words = self._last_words()
            if code > 0:
                return End(False, words or f"ended with {code}")
            killed = f"killed by {_signal(-code)}"  # after any line, such as of progress
            return End(False, f"{killed}, its last line: {words}" if words else killed)
        if not rows:
            return End(False, "it left no report")
        settings, wanted = self.settings.learning, self.total_frames()
        early = settings.stop_at_return is not None or settings.stop_after_s
        if rows[-1]["environment_frames"] < wanted and not early:
            return End(
                False, f"ended after {rows[-1]['environment_frames']:,} of {wanted:,} frames"
            )
        return End(True, "")

    def took(self) -> float:
        """The seconds for which it ran, in all its parts; 0 while it runs."""
        written = self.written()
        if "ended" not in written:
            return 0.0
        return float(written.get("ran", written["ended"] - written["started"]))

    def rows(self) -> list[dict[str, Any]]:
        """Its reports so far."""
        try:
            return read_metrics(self.folder)
        except OSError:
            return []

    def size_of_reports(self) -> int:
        """The bytes of its reports so far: others are only added, also after a resume."""
        try:
            return (self.folder / METRICS).stat().st_size
        except OSError:
            return 0

    def newest(self) -> dict[str, Any]:
        """Its last report; empty without one. Long sessions have too many to read all each time."""
        try:
            return newest_metrics(self.folder)
        except OSError:
            return {}

    def forget(self) -> None:
        """Removes all that it has left, so that it can run afresh."""
        if self.state() == RUNNING:
            raise UserError(f"{self.folder} is running; stop it first.")
        shutil.rmtree(self.folder, ignore_errors=True)
        self._process = None

    def shrink(self) -> None:
        """Removes checkpoints, replay, events and all but ends of logs; curves can be drawn still.

        What the lab itself has written for TensorBoard's tab HParams stays.
        """
        for name in LARGE:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for path in self.folder.glob("events.out.tfevents.*"):
            if path.suffix != ".hparams":
                path.unlink()
        for path in (self.folder / name for name in LOGS):
            if path.exists() and path.stat().st_size > LOG_END:
                write_whole(path, path.read_bytes()[-LOG_END:].partition(b"\n")[2])

    def total_frames(self) -> int:
        """The frames it is to train; 0 until the trainer has chosen, where the spec has not."""
        given = self.settings.learning.total_environment_frames
        with contextlib.suppress(OSError, ValueError, KeyError):
            chosen = json.loads((self.folder / "settings.json").read_text())
            return given or int(chosen["total_environment_frames"])
        return given

    def _last_words(self) -> str:
        """The last line that it printed."""
        try:
            with open(self.folder / keeper.OUTPUT, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        printed = [line.strip() for line in lines if line.strip()]
        return printed[-1][:LONGEST_REASON] if printed else ""


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def launch_here(words: list[str], environment: Mapping[str, str]) -> Process:
    """Starts a keeper on this machine; it outlives the lab."""
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # The lab's Ctrl-C does not reach it, and its end does not end it.
        start_new_session=True,
        env={**os.environ, **environment},
    )
