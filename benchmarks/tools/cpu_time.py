"""CPU time by kind of thread, from ``/proc``."""

import os
from collections.abc import Iterable
from pathlib import Path

import psutil

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")

# How TensorFlow and gRPC name their threads, and trainer.machine.threads ours. Threads that
# call TensorFlow run part of its operations, so ours run more than Python.
KINDS = {
    "emulator": "emulator threads",
    "tf_": "TensorFlow threads",
    "actor": "actors' own threads",
    "batches": "the learner's thread of batches",
    "grpc": "gRPC threads",
    "event_engine": "gRPC threads",
    "default-executo": "gRPC threads",
    "resolver-execut": "gRPC threads",
}
MAIN = {
    "trainer": "the learner's own thread",
    "learner": "the learner's own thread",
    "actor": "actors' own threads",
}
OTHERS = "other threads"
STEPPED = "environments' processes"  # those that step worlds written in Python


def cpu_seconds(roles: dict[int, str]) -> dict[str, float]:
    """Seconds that each kind of thread has worked until now; ``roles`` of processes by their id."""
    found: dict[str, float] = {}
    for process, role in roles.items():
        for task in Path(f"/proc/{process}/task").iterdir():
            try:
                name, seconds = thread_time((task / "stat").read_text())
            except OSError:
                continue  # it has just ended
            kind = MAIN[role] if int(task.name) == process else kind_of(name)
            found[kind] = found.get(kind, 0.0) + seconds
        if stepping := psutil.Process(process).children(recursive=True):
            found[STEPPED] = found.get(STEPPED, 0.0) + worked(stepping)
    return found


def worked(processes: Iterable[psutil.Process]) -> float:
    """Seconds that these processes have worked until now."""
    found = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it has just ended
        found += times.user + times.system
    return found


def thread_time(stat: str) -> tuple[str, float]:
    """Name and seconds of work of a thread, from its line in ``/proc``."""
    start, end = stat.index("("), stat.rindex(")")
    numbers = stat[end + 2 :].split()
    return stat[start + 1 : end], TICK_S * (int(numbers[11]) + int(numbers[12]))


def kind_of(name: str) -> str:
    """What a thread does, by its name."""
    return next((kind for start, kind in KINDS.items() if name.startswith(start)), OTHERS)
