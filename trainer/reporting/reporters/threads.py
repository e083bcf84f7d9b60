"""Runs reporters beside the training: a slow or failing one affects nothing else."""

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from trainer.reporting.reporters.loading import RunReporter, load

MOST_WAITING = 1000  # reports
FINISHES_WITHIN_S = 60.0


class ReporterThread:
    """One reporter, in a thread that makes it and hands it all reports in their order."""

    def __init__(self, name: str, make: Callable[[], RunReporter]):
        self.name = name
        self.problem = ""  # the first one
        self._make = make
        self._waiting: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()
        # A daemon: a reporter that hangs does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=f"reporter {name}", daemon=True)
        self._thread.start()

    def report(self, figures: dict[str, Any]) -> None:
        """Leaves a report to the thread."""
        if self._waiting.qsize() < MOST_WAITING:
            self._waiting.put(("report", dict(figures)))
        else:
            self._note("it is too slow, and some reports are left out")

    def finish(self, summary: dict[str, Any]) -> None:
        """Leaves the end to the thread, after all reports that wait."""
        self._waiting.put(("finish", dict(summary)))

    def wait(self, until: float, within_s: float) -> None:
        """Waits for its end until then, which is so long after it was left to the thread."""
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            self._note(f"it has not finished within {within_s:g} s")

    def _run(self) -> None:
        reporter = None
        try:
            reporter = self._make()
        except BaseException as error:
            self._note(_described(error))
        what = ""
        while what != "finish":
            what, content = self._waiting.get()
            try:
                if reporter is not None:
                    getattr(reporter, what)(content)
            except BaseException as error:
                self._note(_described(error))

    def _note(self, problem: str) -> None:
        self.problem = self.problem or problem


class ReporterThreads:
    """All reporters of a run."""

    def __init__(self, names: str, folder: Path, settings: dict[str, Any]):
        """Finds their classes; the first report makes the reporters."""
        self._make = {name: partial(kind, folder, settings) for name, kind in load(names).items()}
        self._running: list[ReporterThread] = []
        self._finished = False
        self._warned: set[str] = set()

    def report(self, figures: dict[str, Any]) -> None:
        """Sends a report to all."""
        if not self._running:
            self._running = [ReporterThread(name, make) for name, make in self._make.items()]
        for one in self._running:
            one.report(figures)

    def finish(self, summary: dict[str, Any], within_s: float = FINISHES_WITHIN_S) -> None:
        """Ends all that run, which have so long together; only the first call counts."""
        if self._finished:
            return
        self._finished = True
        until = time.monotonic() + within_s
        for one in self._running:
            one.finish(summary)
        for one in self._running:
            one.wait(until, within_s)

    def new_warnings(self) -> list[str]:
        """A warning for each reporter whose first problem has come since the last call."""
        failed = [one for one in self._running if one.problem and one.name not in self._warned]
        self._warned |= {one.name for one in failed}
        return [
            f"warning: --reporters={one.name}: {one.problem}. Training is not affected."
            for one in failed
        ]


def _described(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300].rstrip(".: ")
