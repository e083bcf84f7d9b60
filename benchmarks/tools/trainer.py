"""The trainer as a user runs it: processes of experiment.py in a folder of their own."""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools.namespaces import Namespace
from benchmarks.tools.ports import free_port
from trainer.machine.launching import PROJECT
from trainer.reporting.wording import FIRST_UPDATE
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage.records import read_metrics
from user_error import UserError

# More frames than any benchmark needs, so that training does not end by itself.
FRAMES = 10**12
STARTS_WITHIN_S = 600
ENDS_WITHIN_S = 60
LOOK_EVERY_S = 0.02


class Trainer:
    """A training that runs as long as the ``with`` block."""

    def __init__(
        self,
        settings: Settings,
        actors: int = 0,
        report_every_s: float = 10.0,
        hosts: Sequence[Namespace] = (),
    ):
        """``actors`` processes of their own play for a learner; 0: all in one process.

        With ``hosts``, the learner runs on the first, and each actor on one of the others.
        """
        self._flags = config.to_flags(
            settings.replace(total_environment_frames=FRAMES, report_every_s=report_every_s)
        )
        self._actors = actors
        self._hosts = hosts
        self._processes: list[subprocess.Popen[bytes]] = []
        self._kept = contextlib.ExitStack()

    def __enter__(self) -> "Trainer":
        self._folder = Path(
            self._kept.enter_context(tempfile.TemporaryDirectory(prefix="impala-benchmark-"))
        )
        self._launched = time.monotonic()
        flags = [*self._flags, f"--logdir={self._folder / 'run'}"]
        if not self._actors:
            self._start(flags)
            return self
        address = self._hosts[0].ip if self._hosts else "localhost"
        flags.append(f"--learner_host={address}:{free_port()}")
        self._start([*flags, "--job_name=learner"])
        for task in range(self._actors):
            self._start([*flags, "--job_name=actor", f"--task={task}"])
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        until = time.monotonic() + ENDS_WITHIN_S
        for process in self._processes:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._kept.close()

    @property
    def roles(self) -> dict[int, str]:
        """What each process does, by its id."""
        names = ["learner" if self._actors else "trainer", *["actor"] * self._actors]
        return {process.pid: name for process, name in zip(self._processes, names, strict=True)}

    def wait_for_update(self) -> float:
        """Waits for the first update; seconds since the launch."""
        while FIRST_UPDATE.encode() not in self._log(0).read_bytes():
            self._check()
            if time.monotonic() - self._launched > STARTS_WITHIN_S:
                raise UserError(f"the trainer made no update within {STARTS_WITHIN_S} s.")
            time.sleep(LOOK_EVERY_S)
        return time.monotonic() - self._launched

    def run_for(self, seconds: float) -> None:
        """Lets it train for some seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._check()
            time.sleep(min(0.2, max(0.0, until - time.monotonic())))

    def reports(self) -> list[dict[str, Any]]:
        """Its reports so far."""
        return read_metrics(self._folder / "run")

    def next_report(self) -> dict[str, Any]:
        """Waits for one more report."""
        count = len(self.reports())
        while len(self.reports()) == count:
            self.run_for(LOOK_EVERY_S)
        return self.reports()[-1]

    def _start(self, flags: Sequence[str]) -> None:
        # The trainer ends with the benchmark, however that ends.
        with_parent = ["setpriv", "--pdeathsig", "TERM"]
        command = [*with_parent, sys.executable, "experiment.py", *flags]
        index = len(self._processes)
        if self._hosts:
            command = self._hosts[index].inside(*command)
        with open(self._log(index), "wb") as log:
            process = subprocess.Popen(
                command,
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)

    def _log(self, index: int) -> Path:
        """The log of a process."""
        return self._folder / f"{index}.log"

    def _check(self) -> None:
        """A ``UserError`` with the last output of a process that ended too early."""
        for index, process in enumerate(self._processes):
            if process.poll() is not None:
                lines = self._log(index).read_text(errors="replace").strip().splitlines()
                raise UserError(
                    f"the trainer ended with exit code {process.returncode}: "
                    + " | ".join(lines[-3:] or ["no output"])
                )


def rate_of(
    settings: Settings, actors: int, seconds: float, hosts: Sequence[Namespace] = ()
) -> float:
    """Agent steps a second of a learner with so many actors, see ``Trainer``."""
    with Trainer(settings, actors, seconds / 4, hosts) as trainer:
        trainer.wait_for_update()
        trainer.run_for(seconds / 2)
        before = trainer.next_report()
        trainer.run_for(seconds)
        return steady_rate(before, trainer.next_report())


def steady_rate(first: dict[str, Any], last: dict[str, Any]) -> float:
    """Agent steps a second between two reports."""
    return (last["agent_steps"] - first["agent_steps"]) / (last["wall_time"] - first["wall_time"])


def mean(reports: Sequence[dict[str, Any]], name: str) -> float | None:
    """The mean of a figure over the reports that have it."""
    values = [report[name] for report in reports if report.get(name) is not None]
    return sum(values) / len(values) if values else None
