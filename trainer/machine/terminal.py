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
from user_error import discard


def say(text: str) -> None:
    """Prints a line on standard output, even if its disk is full or its reader has gone."""
    stream = Unfailing(sys.stdout)
    stream.write(text + "\n")
    stream.flush()


def end_output() -> None:
    """Discards what cannot be written; otherwise Python would retry and exit with code 120."""
    Unfailing(sys.stdout).end()


class Shown(Protocol):
    """What is shown below the lines of a live terminal and redrawn with each report."""

    def update(self, figures: dict[str, Any]) -> None:
        """Takes a report."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Renders it."""


class Terminal:
    """Prints lines; if ``stream`` is a terminal, keeps the panel below them."""

    def __init__(self, stream: TextIO, panel: Shown):
        self.panel = panel
        self._stream = Unfailing(stream)
        # mpirun gives each process a terminal of its own and mixes their output.
        alone = not launched_together()
        self.is_live = stream.isatty() and os.environ.get("TERM") != "dumb" and alone
        self._lock = threading.Lock()
        self._console: Console | None = None
        if self.is_live:
            self._console = Console(
                file=cast(TextIO, self._stream), force_terminal=True, force_jupyter=False
            )
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """Prints a line, above the panel."""
        with self._lock:
            if self._console is None:
                self._stream.write(text + "\n")
                self._stream.flush()
            else:
                self._console.print(
                    text, markup=False, emoji=False, highlight=False, soft_wrap=True
                )

    def show(self, figures: dict[str, Any], line: str) -> None:
        """Shows a report: in the panel, or as ``line`` if there is none."""
        if self._console is None:
            self.say(line)
            return
        self.panel.update(figures)
        if self._live is None:
            # Redrawn once a second, so that the clock advances and a resized window recovers.
            self._live = Live(self.panel, console=self._console, refresh_per_second=1)
            self._live.start()
            # It hides the cursor, which nothing would bring back after a kill.
            self._console.show_cursor(True)
            atexit.register(self.close)

    def close(self) -> None:
        """Keeps the last panel on the screen and restores the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            atexit.unregister(self.close)


class Unfailing:
    """A text stream whose reader may go away: from then on it discards its output silently.

    A training must survive a closed terminal, a pipe to ``head`` and a full disk under
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
            discard(self._stream)
        except (OSError, ValueError):
            pass

    def end(self) -> None:
        """Flushes for the last time."""
        try:
            self._stream.flush()
        except OSError:
            discard(self._stream)
        except ValueError:
            pass

    def isatty(self) -> bool:
        with contextlib.suppress(ValueError):
            return self._stream.isatty()
        return False

    def fileno(self) -> int:
        return self._stream.fileno()
