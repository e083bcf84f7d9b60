"""What several agents of one process show: one terminal, and one picture of all their curves."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult

from trainer.machine.terminal import Terminal
from trainer.reporting.curve import title, write_curves
from trainer.reporting.panel import Panel
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage.checkpoints import FOLDER as CHECKPOINTS
from trainer.storage.checkpoints import Store
from trainer.storage.records import SETTINGS, write_whole

FOLDER = "agents"


def folder_of(folder: str | Path, name: str) -> Path:
    """The folder of an agent's own run, in that of the run of all."""
    return Path(folder) / FOLDER / name


def write_settings(folder: Path, settings: Settings, say: Callable[[str], None]) -> None:
    """Records the settings of the run of all agents."""
    try:
        write_whole(folder / SETTINGS, config.to_json(settings).encode() + b"\n")
    except OSError as error:
        say(f"warning: {folder / SETTINGS} could not be written ({error.strerror}).")


def draw(folder: Path, settings: Settings, say: Callable[[str], None]) -> None:
    """Draws the curves of all agents in one picture."""
    runs = {name: folder_of(folder, name) for name in settings.level.agent_names}
    heading = title(settings.level.levels, ", ".join(runs), settings.program.seed)
    try:
        since = {name: _level_since(run) for name, run in runs.items()}
        say(f"The curves of {', '.join(runs)}: {write_curves(folder, heading, runs, since)}")
    except Exception as error:  # of the disk, or of what draws: the training is over and kept
        reason = getattr(error, "strerror", None) or str(error)
        say(f"warning: the learning curves could not be drawn ({reason}).")


def _level_since(run: Path) -> int:
    """The frames at which an agent began to play its level, as its newest checkpoint has them."""
    found = Store(run / CHECKPOINTS, keep=1).newest(lambda _: None)
    return int(found[1].counters.get("level_since", 0)) if found else 0


class SeveralOnTerminal:
    """A terminal that shows a panel for each agent, and whose lines begin with an agent's name."""

    def __init__(self) -> None:
        self._panels: dict[str, Panel] = {}
        self._open: set[str] = set()
        self._terminal = Terminal(sys.stdout, self)

    def of(self, name: str, panel: Panel) -> "OfAgent":
        """The part of an agent."""
        self._panels[name] = panel
        self._open.add(name)
        return OfAgent(self, self._terminal, name, panel)

    def say(self, text: str) -> None:
        """Prints a line about all agents."""
        self._terminal.say(text)

    def close(self, name: str) -> None:
        """Keeps the last panels on the screen once the last agent has ended."""
        self._open.discard(name)
        if not self._open:
            self._terminal.close()

    def update(self, figures: dict[str, Any]) -> None:
        """Each agent's panel has its own figures."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from list(self._panels.values())


class OfAgent:
    """A terminal as one of several agents sees it."""

    def __init__(self, several: SeveralOnTerminal, terminal: Terminal, name: str, panel: Panel):
        self._several, self._terminal = several, terminal
        self._name, self._panel = name, panel
        self.is_live = terminal.is_live

    def say(self, text: str) -> None:
        """Prints a line of this agent."""
        self._terminal.say(f"{self._name}: {text}")

    def show(self, figures: dict[str, Any], line: str) -> None:
        """Shows a report of this agent."""
        self._panel.update(figures)
        self._terminal.show(figures, f"{self._name}: {line}")

    def close(self) -> None:
        """Ends this agent's part."""
        self._several.close(self._name)
