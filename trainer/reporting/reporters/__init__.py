"""Further places to report to: ``--reporters`` names their classes, with commas between.

A reporter needs no base class. It is made once a run, with the run's folder and all settings by
name, and used in a thread of its own:

- ``report(figures)`` gets the figures of each report, numbers or None by name;
- ``finish(summary)`` gets the last ones, those of the whole run, ``best_return`` and ``reason``,
  why it ended; or, after an error, only ``reason`` and ``error``.

What a reporter raises is printed once; training never waits for a reporter or ends because of it.
"""

from trainer.reporting.reporters.loading import load
from trainer.reporting.reporters.threads import ReporterThread, ReporterThreads

__all__ = ["ReporterThread", "ReporterThreads", "load"]
