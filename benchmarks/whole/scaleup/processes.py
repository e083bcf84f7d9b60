"""Processes of a training for a benchmark: started by hand, ended with a ``with`` block."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from cluster.mpi_environment import ENVIRONMENT
from trainer.machine.launching import PROJECT
from user_error import EndedOutside

PROGRAM = [sys.executable, str(PROJECT / "experiment.py")]
ENDS_WITHIN_S = 20.0


class Failed(EndedOutside):
    """A process ended too early, or did not get ready in time; the text says which."""


class Processes:
    """Processes by name, each with a log in a folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._started: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        all_of_them = [one for name in self._started for one in self.tree(name)]
        for process in self._started.values():
            process.send_signal(signal.SIGTERM)
        # mpirun's learners are not its process group: each is waited for and, if need be, killed.
        for one in psutil.wait_procs(all_of_them, timeout=ENDS_WITHIN_S)[1]:
            one.kill()
        for process in self._started.values():
            process.wait()

    def start(self, name: str, command: Sequence[str]) -> None:
        """Starts a command, which ends with the benchmark, however that ends."""
        with open(self._folder / f"{name}.log", "wb") as log:
            self._started[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *command],
                cwd=PROJECT,
                env=os.environ | ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def tree(self, name: str) -> list[psutil.Process]:
        """The process and its descendants."""
        try:
            process = psutil.Process(self._started[name].pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def wait(self, until: Callable[[], object], seconds: float) -> None:
        """Waits until something holds; ``Failed`` where a process ends or it takes too long."""
        end = time.monotonic() + seconds
        while not until():
            for name, process in self._started.items():
                if process.poll() is not None:
                    raise Failed(f"{name} ended with {process.returncode}:\n{self._last(name)}")
            if time.monotonic() > end:
                logs = "\n".join(self._last(name) for name in self._started)
                raise Failed(f"not within {seconds:g} s:\n{logs}")
            time.sleep(0.2)

    def _last(self, name: str) -> str:
        lines = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(f"  {name} | {line[:200]}" for line in lines[-15:])
