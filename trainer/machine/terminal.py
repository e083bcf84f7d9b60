"""Standard output of a training: a live panel in a terminal, plain lines everywhere else."""

import atexit
import contextlib
import os
import sys
import threading
from typing import Any, Protocol, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live

from trainer.machine.launching import launched_together


def say(text: str) -> None:
    """A line on standard output, whose disk may be full and whose reader may have gone."""
    stream = Unfailing(sys.stdout)
    stream.write(text + "\n")
    stream.flush()


def end_output() -> None:
    """Drops what cannot be written; else Python would try it again and end with code 120."""
    Unfailing(sys.stdout).end()


class Shown(Protocol):
    """What stands below the lines of a live terminal and is redrawn with each report."""

    def update(self, figures: dict[str, Any]) -> None:
        """Takes a report."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """How it looks."""


class Terminal:
    """Says lines; where ``stream`` is a terminal, keeps the panel below them."""

    def __init__(self, stream: TextIO, panel: Shown):
        self.panel = panel
        self._stream = Unfailing(stream)
        # mpirun gives each process a terminal of its own and then mixes what they write.
        alone = not launched_together()
        self.is_live = stream.isatty() and os.environ.get("TERM") != "dumb" and alone
        self._lock = threading.Lock()
        self._console: Console | None = None
        if self.is_live:
            self._console = Console(file=cast(TextIO, self._stream), force_terminal=True)
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """A line of its own, above the panel."""
        with self._lock:
            if self._console is None:
                self._stream.write(text + "\n")
                self._stream.flush()
            else:
                self._console.print(
                    text, markup=False, emoji=False, highlight=False, soft_wrap=True
                )

    def show(self, figures: dict[str, Any], line: str) -> None:
        """A report: in the panel, or as its line."""
        if self._console is None:
            self.say(line)
            return
        self.panel.update(figures)
        if self._live is None:
            # Drawn once a second: so the clock goes on and a resized window heals.
            self._live = Live(self.panel, console=self._console, refresh_per_second=1)
            self._live.start()
            atexit.register(self.close)

    def close(self) -> None:
        """Leaves the panel as it is and the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            atexit.unregister(self.close)


class Unfailing:
    """A text stream whose reader may go away: then it says nothing more and raises nothing.

    A training must outlive a closed terminal, a pipe to ``head`` and a full disk under
    ``> file``.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:
            return self.write(text.encode("ascii", "replace").decode())
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._discard()
        except (OSError, ValueError):
            pass

    def end(self) -> None:
        """The last flush."""
        try:
            self._stream.flush()
        except OSError:
            self._discard()
        except ValueError:
            pass

    def _discard(self) -> None:
        # What Python still holds would fail again as the process ends, and its exit code.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def isatty(self) -> bool:
        with contextlib.suppress(ValueError):
            return self._stream.isatty()
        return False

    def fileno(self) -> int:
        return self._stream.fileno()
