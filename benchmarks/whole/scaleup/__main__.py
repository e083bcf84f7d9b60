"""``python -m benchmarks scaleup``; see the package."""

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.tools import common, files
from benchmarks.tools.machine import precision, siblings
from benchmarks.whole.scaleup import report
from benchmarks.whole.scaleup.cases import Case, Running, cases, rate
from benchmarks.whole.scaleup.here import Here
from benchmarks.whole.scaleup.hosts import OnHosts, check_rows
from benchmarks.whole.scaleup.options import Chosen, parse
from cluster.backends.ssh.backend import routes_of, rows_of
from cluster.inventory.hosts_csv import Row
from trainer.machine import provenance
from trainer.machine.quota import usable_cores
from trainer.settings import config
from user_error import UserError, exit_code


def main(arguments: list[str]) -> int:
    """Measures, prints the table, writes JSON and picture; returns the exit code."""
    common.unwind_when_stopped()

    def run() -> None:
        chosen = parse(arguments)
        measure(chosen, rows_of(chosen.hosts, routes_of(chosen.hosts)))

    return exit_code("benchmarks scaleup", run)


def measure(chosen: Chosen, rows: Sequence[Row]) -> None:
    """Prints the table of all cases, and writes them."""
    out = files.folder(chosen.options.results)
    todo = cases(chosen)
    if rows:
        check_rows(todo, rows)
    else:
        check_mpirun(todo)
    repeats = chosen.options.repeats
    print("\n".join(described(chosen, repeats).values()) + "\n", flush=True)

    def write(rates: report.Rates) -> None:
        about = described(chosen, len(rates[todo[0]]))
        print(f"\n{report.table(rates)}\n")
        print(EXPLAINED)
        report.write_json(out / "scaleup.json", rates, about)
        report.draw(out / "scaleup.png", rates, about["what"])
        print(f"\n{out}/scaleup.json and scaleup.png written")

    rates: report.Rates = {case: [] for case in todo}
    in_turns(rates, repeats, lambda case: measured(case, chosen, rows), write)


def check_mpirun(todo: Sequence[Case]) -> None:
    """A ``UserError`` where learners cannot train together on this machine."""
    if any(case.learners > 1 for case in todo) and not shutil.which("mpirun"):
        raise UserError("several learners need mpirun: run bin/setup --learner.")


def in_turns(
    rates: report.Rates,
    turns: int,
    measured: Callable[[Case], float],
    write: Callable[[report.Rates], None],
    keep: Callable[[report.Rates], None] = lambda rates: None,
) -> None:
    """Measures every case in every turn, and writes the turns that there are, also if stopped.

    ``rates`` has those of earlier turns, and gets the new ones; ``keep`` takes them after each.
    """
    with common.whole_turns(rates, write):
        for turn in range(1 + min(map(len, rates.values())), turns + 1):
            for case, found in rates.items():
                found.append(measured(case))
                print(f"turn {turn} of {turns}, {case}: {found[-1]:,.0f} agent steps/s", flush=True)
            keep(rates)


def measured(case: Case, chosen: Chosen, rows: Sequence[Row] = ()) -> float:
    """Agent steps a second of a case, here or on the hosts of a CSV's rows."""
    with started(case, chosen, rows) as running:
        return rate(running, chosen)


EXPLAINED = f"""Medians over turns; in brackets the lowest and the highest turn.
apart: agent steps/s of as many learners at the same time without any contact.
against one alone: agent steps/s / (learners × agent steps/s of one learner alone). On one machine
  this includes the cost of sharing it.
against learners apart: agent steps/s / apart. The difference to 1 is the cost of averaging.
  Goal for 2 learners with synthetic unrolls: {report.WANTED} or more."""


@contextlib.contextmanager
def started(case: Case, chosen: Chosen, rows: Sequence[Row]) -> Iterator[Running]:
    """The case's processes, where they belong."""
    common.unwind_when_stopped()
    if rows:
        stamp = f"{case.learners}-{case.actors}-{time.time_ns()}"
        with OnHosts(case, chosen, rows, f"logs/scaleup/{stamp}") as on_hosts:
            yield on_hosts
    else:
        with (
            tempfile.TemporaryDirectory(prefix="scaleup") as folder,
            Here(case, chosen, Path(folder)) as here,
        ):
            yield here


def described(chosen: Chosen, turns: int) -> dict[str, str]:
    """Where and how it is measured, in so many turns."""
    options, settings = chosen.options, chosen.settings
    flags = config.to_command(settings) or "the defaults"
    how = (
        f"{turns} turns; in each, the median of {options.windows} pieces of "
        f"{options.window_s:g} s after {options.warm_up} to warm up"
    )
    what = (
        f"{settings.level.level_name}, {settings.learning.batch_size} unrolls of "
        f"{settings.actors.unroll_length} a batch, precision "
    )
    if chosen.hosts.workers_csv_path:
        machine = f"hosts of {chosen.hosts.workers_csv_path}"
        what += settings.agent.precision
    else:
        machine = f"{provenance.machine()}; {siblings()}"
        what += precision(settings)
        if max(chosen.learners) > usable_cores():
            machine += "; some learners share a core"
    return {"machine": machine, "what": what, "flags": f"flags: {flags}", "how": how}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
