"""What a terminal shows of a running experiment: a panel for all sessions, or lines."""

import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import rich.box
import rich.panel
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lab.trials import plan
from lab.trials.folder import DONE, ENDED_EARLY, FAILED, OPEN, Trial
from lab.trials.sessions import Session
from trainer.machine.terminal import Terminal
from trainer.reporting.wording import count, duration, number

LINES_EVERY_S = 10.0
BAR = 18


class Running(NamedTuple):
    """A session that is running, as it last reported."""

    trial: Trial
    place: int
    seed: int
    frames: int
    total: int
    mean_return: float | None
    time_left: float | None

    @property
    def name(self) -> str:
        """Its trial and its place there."""
        return f"{self.trial.name}_s{self.place}"

    @property
    def share(self) -> float:
        """How much of its frames it has, from 0 to 1."""
        return min(1.0, self.frames / self.total) if self.total else 0.0


class Snapshot(NamedTuple):
    """An experiment at one moment."""

    trials: Sequence[Trial]
    running: Sequence[Running]
    expected: int  # trials in all
    slots: int
    ended_sessions: int = 0  # of trials that have not ended


def running_of(trial: Trial, place: int, session: Session) -> Running:
    """What a running session has last reported."""
    row = session.newest()
    return Running(
        trial, place, session.seed, row.get("environment_frames", 0), session.total_frames(),
        row.get("mean_episode_return"), row.get("time_left"),
    )  # fmt: skip


class Progress:
    """Shows how an experiment goes."""

    def __init__(self, title: str):
        self._panel = Panel(title)
        self._terminal = Terminal(sys.stdout, self._panel)
        self._shown = time.monotonic()

    def say(self, text: str) -> None:
        """Prints a line."""
        self._terminal.say(text)

    def started(self, trial: Trial, place: int) -> None:
        """Prints the start of a session, where there is no panel."""
        if not self._terminal.is_live:
            what = trial.what
            self.say(
                f"{trial.name} s{place} started · seed {trial.seeds[place]}{what and ' · ' + what}"
            )

    def closed(self, trial: Trial) -> None:
        """Prints how a trial ended."""
        name, results = f"{trial.name} {trial.state}", trial.results
        if trial.state == FAILED:
            self.say(f"{name}: {trial.reason}")
            return
        parts = [f"{results['objective_name']} {number(results['objective'])}"]
        parts.append(f"best mean return {number(results['best_return'])}")
        if trial.reason:
            parts.append(trial.reason)
        self.say(f"{name} · {' · '.join(parts)}{trial.what and ' · ' + trial.what}")

    @property
    def is_live(self) -> bool:
        """Whether there is a panel."""
        return self._terminal.is_live

    def is_due(self) -> bool:
        """Whether it is time for the newest state."""
        passed = time.monotonic() - self._shown
        return passed >= (1.0 if self._terminal.is_live else LINES_EVERY_S)

    def update(self, snapshot: Snapshot) -> None:
        """Shows the newest state, in the panel or as a line."""
        self._shown = time.monotonic()
        self._terminal.show({"snapshot": snapshot}, line(snapshot))

    def close(self) -> None:
        """Leaves the last panel on the screen."""
        self._terminal.close()


def line(snapshot: Snapshot) -> str:
    """The state in one line."""
    running = ", ".join(
        f"{one.name} {_percent(one)} {number(one.mean_return)}" for one in snapshot.running
    )
    return " · ".join(
        part for part in (counts(snapshot), running, _best(snapshot), _left(snapshot)) if part
    )


def counts(snapshot: Snapshot) -> str:
    """How many trials there are in each state."""
    states = [one.state for one in snapshot.trials]
    done = len(states) - states.count(OPEN)
    more = [
        f"{states.count(state)} {state}" for state in (FAILED, ENDED_EARLY) if states.count(state)
    ]
    return " · ".join([f"{done} of {snapshot.expected} trials ended", *more])


class Panel:
    """Rows for running sessions below the counts, redrawn once a second."""

    def __init__(self, title: str):
        self._title = title
        self._snapshot: Snapshot | None = None
        self.started = time.monotonic()

    def update(self, figures: dict[str, Any]) -> None:
        """Takes the newest state."""
        self._snapshot = figures["snapshot"]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._snapshot is None:
            return
        passed = time.monotonic() - self.started
        snapshot = self._snapshot
        table = Table(box=None, padding=(0, 1), expand=True, header_style="dim")
        for heading, right in (("session", 0), ("frames", 1), ("", 0), ("return", 1), ("left", 1)):
            table.add_column(heading, justify="right" if right else "left", no_wrap=True)
        table.add_column("", ratio=1, overflow="ellipsis", no_wrap=True)
        for one in snapshot.running:
            bar = ProgressBar(total=1.0, completed=one.share, width=BAR)
            what = Text(one.trial.what, style="dim")
            table.add_row(one.name, count(one.frames), bar, number(one.mean_return),
                          duration(one.time_left), what)  # fmt: skip
        below = [counts(snapshot), _best(snapshot), duration(passed), _left(snapshot)]
        yield rich.panel.Panel(
            table,
            title=Text(self._title, style="bold", overflow="ellipsis"),
            subtitle=Text(" · ".join(part for part in below if part), overflow="ellipsis"),
            box=rich.box.ROUNDED,
            border_style="cyan",
        )


def _best(snapshot: Snapshot) -> str:
    ranked = plan.ranked(snapshot.trials)
    if not ranked or ranked[0].kind == plan.BENCHMARK:  # of levels, which cannot be compared
        return ""
    return f"best {ranked[0].name} {number(ranked[0].results['objective'])}"


def _left(snapshot: Snapshot) -> str:
    """The time left, from what sessions have taken so far; until one has ended, as they expect."""
    took = [
        one.results["took"] / len(one.seeds)
        for one in snapshot.trials
        if one.state == DONE and one.results.get("took")
    ] or [one.time_left / (1 - one.share) for one in snapshot.running if one.time_left]
    open_trials = [one for one in snapshot.trials if one.state == OPEN]
    later = snapshot.expected - len(snapshot.trials)
    # Trials of the same experiment have as many sessions as each other, but for the last ones.
    seeds = len(snapshot.trials[-1].seeds) if snapshot.trials else 1
    sessions = sum(len(one.seeds) for one in open_trials) + later * seeds
    missing = sessions - snapshot.ended_sessions - sum(one.share for one in snapshot.running)
    if not took or missing <= 0:
        return ""
    return f"about {duration(missing * sum(took) / len(took) / max(1, snapshot.slots))} left"


def _percent(one: Running) -> str:
    return f"{100 * one.share:.0f}%" if one.total else count(one.frames)
