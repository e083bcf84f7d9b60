"""Runs a peer's driver for a while and reads how far it comes."""

import contextlib
import json
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import psutil

from benchmarks.whole.peers.known import Peer

# A driver prints lines of this word and {"steps": agent steps trained, "time": seconds}.
WORD = "PROGRESS "
STARTS_WITHIN_S = 600
NO_PROGRESS_WITHIN_S = 120
ENDS_WITHIN_S = 5
LOOK_EVERY_S = 0.1


class Failed(Exception):
    """A peer did not do its work; the text says why."""


class Ended(Failed):
    """Its driver has ended."""

    def __init__(self, code: int, log: Path):
        super().__init__(f"it ended with exit code {code}: {last_words(log)}")
        self.code = code


class Reached(NamedTuple):
    """What a run gave."""

    first_update_s: float
    steps_per_second: float


class Work(NamedTuple):
    """What everybody is given to do."""

    rom: str  # Atari's game, as the emulator calls it
    agent_name: str
    unroll_length: int
    batch_size: int
    envs: int  # of each worker
    seed: int


def run(
    peer: Peer,
    python: Path,
    work: Mapping[str, Any],
    warm_up_s: float,
    seconds: float,
    log: Path,
) -> Reached:
    """One run of a peer from its launch to its steady state; all its output is in the log."""
    launched, started = time.monotonic(), time.time()
    with _driven(peer, python, work, log) as process:
        told = _told(process, log)
        first = _wait(told, log, launched + STARTS_WITHIN_S, lambda one: one["steps"] > 0)
        before = _next_update(told, log, first, warm_up_s)
        after = _next_update(told, log, before, seconds)
    passed, steps = (after[name] - before[name] for name in ("time", "steps"))
    return Reached(first["time"] - started, steps / passed)


class Progress(NamedTuple):
    """How far a run has come."""

    seconds: float  # since its launch
    steps: float
    mean: float | None  # raw return of the last 100 training episodes
    is_round: bool = False  # whether it has just learned from all that it has played


def watch(
    peer: Peer,
    python: Path,
    work: Mapping[str, Any],
    seconds: float,
    log: Path,
    until: float = math.inf,
) -> list[Progress]:
    """A run's progress until its mean return reaches ``until``, its end, or so many seconds."""
    started, found = time.time(), list[Progress]()
    with _driven(peer, python, work, log) as process:
        try:
            for point in _told(process, log):
                if point is None:
                    if time.time() - started > seconds + NO_PROGRESS_WITHIN_S:
                        raise Failed(f"it made no progress in time: {last_words(log)}")
                    continue
                one = Progress(
                    point["time"] - started,
                    point["steps"],
                    point.get("return"),
                    bool(point.get("round")),
                )
                found.append(one)
                if (one.mean is not None and one.mean >= until) or one.seconds >= seconds:
                    break
        except Ended as end:
            if end.code or not found:
                raise
    return found


def _told(process: subprocess.Popen, log: Path) -> Iterator[dict[str, Any] | None]:
    """Each point of progress, None while there is no new one; ``Ended`` after the last."""
    with open(log, "rb") as said:
        while True:
            code = process.poll()
            yield from lines(_whole_lines(said))
            if code is not None:
                raise Ended(code, log)
            yield None
            time.sleep(LOOK_EVERY_S)


def _wait(
    told: Iterator[dict[str, Any] | None],
    log: Path,
    limit: float,
    wanted: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """The first matching point of progress."""
    for point in told:
        if point and wanted(point):
            return point
        if point is None and time.monotonic() > limit:
            break
    raise Failed(f"it made no progress in time: {last_words(log)}")


def _next_update(
    told: Iterator[dict[str, Any] | None], log: Path, since: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """The first point after so many seconds at which steps were added since the point before.

    They come by whole updates: from the end of one to that of another, no piece of one is counted.
    """
    last = since["steps"]

    def is_end(one: dict[str, Any]) -> bool:
        nonlocal last
        grown, last = one["steps"] > last, one["steps"]
        return grown and one["time"] >= since["time"] + seconds

    return _wait(told, log, _limit(seconds), is_end)


def _whole_lines(file: BinaryIO) -> str:
    """The lines since the last call: to read all of them each time would cost the peer cores."""
    start, new = file.tell(), file.read()
    whole = new[: new.rfind(b"\n") + 1]
    file.seek(start + len(whole))
    return whole.decode(errors="replace")


@contextlib.contextmanager
def _driven(
    peer: Peer, python: Path, work: Mapping[str, Any], log: Path
) -> Iterator[subprocess.Popen]:
    """A peer's driver, ended with all that it started; all its output is in the log."""
    with tempfile.TemporaryDirectory(prefix="impala-peer-") as folder, open(log, "wb") as out:
        process = subprocess.Popen(
            # It ends with the benchmark, however that ends.
            [*("setpriv", "--pdeathsig", "TERM"), str(python), str(peer.driver), json.dumps(work)],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            end(process)


def environment() -> dict[str, str]:
    """This process's environment without what belongs to the trainer's own Python."""
    own = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in own}


def lines(text: str) -> list[dict[str, Any]]:
    """Each line of progress in a log."""
    found = []
    for line in text.splitlines():
        _, word, text = line.partition(WORD)
        if not word:
            continue
        try:
            point = json.loads(text)
            numbers = {name: float(point[name]) for name in ("time", "steps")}
            found.append(point | numbers)
        except (ValueError, KeyError, TypeError):
            continue  # a line that is being written, or one in which two were mixed
    return found


def end(process: subprocess.Popen) -> None:
    """Ends the driver and all that it has started, and nothing else."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ENDS_WITHIN_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # those of its session, be their parent gone
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


def _limit(seconds: float) -> float:
    return time.monotonic() + seconds + NO_PROGRESS_WITHIN_S


def last_words(log: Path) -> str:
    """The last line that is not progress."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line and WORD not in line), "no output")
