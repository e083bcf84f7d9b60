"""The parts of a training, each alone: how many agent steps a second it could do.

  python -m benchmarks components
  python -m benchmarks components --level_name=BreakoutNoFrameskip-v4 --agent_name=ResNetAgent
  taskset -c 0 python -m benchmarks components --precision=float32

  emulation   an actor's environments, stepped with random actions
  inference   choosing the actions of all environments of an actor with one call
  acting      both in turn, as an actor does it: the time beyond the sum is Python's
  learning    the update of the weights with a batch of real unrolls
  multiplying as many multiplications as inference and learning take, made by large products of
              matrices: the fastest that the processor can multiply
  transport   unrolls through the queue of one process, joined to batches; and, from actors in
              other processes, over distributed TensorFlow

Each is measured on one core and on all: the parts in turns, so that a busy machine favours none
of them, the ways of using the cores one after another, each in a process of its own. Where
one call has too little work for all cores, several calls at a time may do more: both are shown.
The last line is their sum if every step takes all three on the same cores:
1 / (1 / emulation + 1 / inference + 1 / learning), counted with the better way of each.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tools import common, ways
from benchmarks.tools.common import Options, Spread, spread
from benchmarks.tools.report import Column, Report
from benchmarks.tools.ways import BOUND_OF, PROJECT, Measured
from flags import setting
from trainer.machine.quota import usable_cores
from trainer.settings import checks
from trainer.settings.config import Settings
from user_error import UserError

COLUMNS = (
    Column("part", 30),
    Column("cores", 32),
    Column("agent steps/s", 26, ",.0f"),
    Column("µs a step", 10, ",.0f"),
)
MULTIPLYING = ("multiplying for inference", "multiplying for learning")
LOCAL = "transport, in one process"
REMOTE = "transport, {}"


@dataclasses.dataclass(frozen=True)
class Own(Options):
    threads: str = setting(
        "0", "Measuring", "threads of one call on all cores, with commas between; 0: one a core"
    )
    seconds: float = setting(2.0, "Measuring", "for each measurement", above=0)
    actors: str = setting(
        "1,2", "Measuring", "actor processes that send unrolls, with commas between; 0: none"
    )


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, settings = common.parse(Own, "components", __doc__, arguments, trainer=True)
    checks.check(settings)
    threads = [n or usable_cores() for n in common.numbers("threads", own.threads, least=0)]
    actors = common.numbers("actors", own.actors, least=0)
    first, *others = ways.all_ways(threads)
    measured = [measured_in(own, settings, first)]
    report = Report(
        "components", COLUMNS, own, measured[0].precision, what(settings, measured[0]), settings
    )
    with report.finished("agent steps/s") as figures:
        try:
            for way in others:
                measured.append(measured_in(own, settings, way))
        finally:
            add(report, measured)
        for count in filter(None, actors):
            rates = between_processes(settings, measured[0], count, own.seconds, own.repeats)
            for transport, rate in rates.items():
                label = f"all cores, {count} actor{'s' * (count > 1)}"
                row(report, REMOTE.format(transport), label, rate)
        full = [one for one in measured if one.way.cores == usable_cores()]
        figures["bound"] = ways.bound(full)
        row(report, "bound", "all cores", figures["bound"])


def measured_in(own: Own, settings: Settings, way: ways.Way) -> Measured:
    """The parts in this way."""
    return ways.measure(settings, way, parts_for(way), own.seconds, own.repeats, own.results)


def add(report: Report, measured: Sequence[Measured]) -> None:
    """Adds a row for each part in each way."""
    for part in ("emulation", "inference", "acting", "learning", *MULTIPLYING, "transport"):
        for one in measured:
            if part in one.rates:
                row(report, LOCAL if part == "transport" else part, one.way.name, one.rates[part])


def parts_for(way: ways.Way) -> Sequence[str]:
    """What is measured in this way; the queue of one process uses one core anyway."""
    parts = (*BOUND_OF, "acting", *MULTIPLYING)
    return (*parts, "transport") if way.cores == 1 else parts


def what(settings: Settings, measured: Measured) -> str:
    """The work in words."""
    return (
        f"{settings.level.level_name}, {measured.agent}, "
        f"{measured.environments} environments an actor, "
        f"unroll {settings.actors.unroll_length}, batch {settings.learning.batch_size}"
    )


def row(report: Report, part: str, cores: str, rate: Spread | float) -> None:
    """Adds a rate, and the time that a step takes."""
    median = rate.median if isinstance(rate, Spread) else rate
    report.row(part, cores, rate, 1e6 / median)


def between_processes(
    settings: Settings, measured: Measured, actors: int, seconds: float, repeats: int
) -> dict[str, Spread]:
    """Agent steps a second that arrive at a learner from actors which do nothing but send.

    By transport.
    """
    common.progress(f"transport: {actors} actors in processes of their own")
    unrolls = measured.environments
    with tempfile.TemporaryDirectory() as folder:
        flags = [
            f"--actors={actors}",
            f"--sizes={unrolls * measured.sizes['block']}",
            f"--seconds={seconds}",
            f"--repeats={repeats}",
            f"--results={folder}",
        ]
        # It ends with this process, however that ends.
        command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "benchmarks"]
        command += ["transport", *flags]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"the benchmark of transport failed: {done.stderr.strip()[-500:]}")
        rows = json.loads((Path(folder) / "transport.json").read_text())["rows"]
    return {
        row["transport"]: spread(
            [n * unrolls * settings.actors.unroll_length for n in row["messages/s"]["values"]]
        )
        for row in rows
    }


if __name__ == "__main__":
    sys.exit(common.run("components", measure))
