"""Real processes of a training, and their output."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from benchmarks.tools.ports import free_port
from cluster import mpi_environment

# Of tests that cost much: with the plain one they run by `bin/test --extras` only.
TRANSPORTS = (pytest.param("tensorflow", marks=pytest.mark.extras), "secure")
PROJECT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | mpi_environment.ENVIRONMENT
ENVIRONMENT |= {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    # There are fewer cores than processes, so waiting ones must yield.
    "OMPI_MCA_mpi_yield_when_idle": "1",
    # Learners that wait for each other would otherwise ask ten thousand times a second.
    "HOROVOD_CYCLE_TIME": "2",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONUNBUFFERED": "1",
}


class Process:
    """A process and its children; killed at the end of the ``with`` block.

    What it printed is shown where the block fails.
    """

    def __init__(self, command: Sequence[str]):
        self._command = " ".join(command)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if kind:
            print(f"{self._command} ended with {self._process.returncode}:\n{self.output()}")
        self._output.close()

    def output(self) -> str:
        """Everything printed so far."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def send(self, number: int) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """The exit code; fails if the process does not end in time."""
        ranks = self._children()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.output()}") from None
        # mpirun does not wait for those that it kills, and they may still listen somewhere.
        psutil.wait_procs(ranks, seconds)
        return code

    def wait_for(self, text: str, seconds: float = 120, times: int = 1) -> None:
        """Waits until ``text`` has been printed ``times`` times."""
        until = time.monotonic() + seconds
        while self.output().count(text) < times:
            ended = self._process.poll()
            assert ended is None, f"ended with {ended} before {text!r}:\n{self.output()}"
            assert time.monotonic() < until, f"no {text!r} within {seconds} s:\n{self.output()}"
            time.sleep(0.05)

    def send_rank(self, rank: int, number: int) -> None:
        """Sends a signal to one of the processes that mpirun started."""
        name = "OMPI_COMM_WORLD_RANK"
        [one] = [one for one in self._children() if one.environ()[name] == str(rank)]
        one.send_signal(number)

    def _children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children()
        except psutil.NoSuchProcess:
            return []


def mpirun(
    programs: Sequence[Sequence[str]], hosts: Sequence[str] = (), options: Sequence[str] = ()
) -> Process:
    """One rank for each program, given as arguments of Python; local, or each on its host."""
    command = ["mpirun", *options]
    command += [] if hosts else ["-H", ",".join(["localhost"] * len(programs))]
    for index, program in enumerate(programs):
        command += [":"] * bool(index)
        command += ["-H", hosts[index]] if hosts else []
        command += ["-np", "1", "-bind-to", "none", "-map-by", "slot", sys.executable, *program]
    return Process(command)


def experiment(*flags: str) -> list[str]:
    """``experiment.py`` as arguments of Python."""
    return ["experiment.py", *flags]


def alone(*flags: str) -> Process:
    """``experiment.py`` in a process of its own."""
    return Process([sys.executable, *experiment(*flags)])


def free_address() -> str:
    """A free address of this machine for a learner."""
    return f"localhost:{free_port()}"
