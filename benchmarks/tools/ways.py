"""The parts of a training in each way of using the cores, each way in a process of its own.

All cores can be kept busy by one call with many threads, or by many calls of one thread each.
Which is faster differs from part to part, so the bound counts with the better one.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.tools.common import Spread, progress, spread
from trainer.machine.launching import PROJECT
from trainer.machine.quota import usable_cores
from trainer.settings import config
from trainer.settings.config import Settings
from user_error import UserError

# The work of every agent step of a training, on the cores of one machine.
BOUND_OF = ("emulation", "inference", "learning")


class Way(NamedTuple):
    """How the cores are used."""

    name: str
    threads: int  # of one call
    callers: int  # calls at the same time
    cores: int


def all_ways(threads: Sequence[int] = ()) -> list[Way]:
    """One core alone, then all: a call of so many threads each, and a call on every core."""
    count = usable_cores()
    one = Way("1 core", 1, 1, 1)
    if count == 1:
        return [one]
    calls = [Way(f"all cores, 1 call of {n} threads", n, 1, count) for n in threads or [count]]
    return [one, *calls, Way(f"all cores, {count} calls of 1 thread", 1, count, count)]


def full_ways() -> list[Way]:
    """Those that use all cores."""
    return [way for way in all_ways() if way.cores == usable_cores()]


def half_way() -> Way:
    """One call on half of the cores, as where another part has the other half."""
    half = max(1, usable_cores() // 2)
    return Way("half of the cores, 1 call", half, 1, half)


class Measured(NamedTuple):
    """The results of one way."""

    way: Way
    agent: str
    precision: str
    environments: int  # of an actor
    batch_steps: int  # new ones
    sizes: dict[str, int]  # bytes of an unroll between processes, of weights and of a gradient
    rates: dict[str, Spread]  # agent steps a second, of each part


def measure(
    settings: Settings, way: Way, parts: Sequence[str], seconds: float, repeats: int, results: str
) -> Measured:
    """Measures parts in turns, in a process whose threads and cores are those of the way."""
    progress(f"{', '.join(parts)}: {way.name}")
    flags = [
        f"--parts={','.join(parts)}",
        f"--threads={way.threads}",
        f"--callers={way.callers}",
        f"--seconds={seconds}",
        f"--repeats={repeats}",
        f"--results={results}",
        *config.to_flags(settings),
    ]
    some = sorted(os.sched_getaffinity(0))[: way.cores]
    result = json.loads(_printed("measure_parts", flags, some))
    return Measured(
        way,
        result["agent"],
        result["precision"],
        result["environments"],
        result["batch_steps"],
        result["sizes"],
        {part: spread(values) for part, values in result["rates"].items()},
    )


def _printed(module: str, flags: Sequence[str], some: Sequence[int]) -> str:
    """The last line of output of a benchmark on some of the cores."""
    # It ends with this process, however that ends.
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "benchmarks", module]
    done = subprocess.run(
        [*command, *flags],
        cwd=PROJECT,
        preexec_fn=functools.partial(os.sched_setaffinity, 0, some),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise UserError(last.removeprefix(f"benchmarks {module}: "))
    return done.stdout.splitlines()[-1]


def best(measured: Sequence[Measured], part: str) -> tuple[Way, Spread]:
    """The fastest way for a part, and all its measurements."""
    values: dict[Way, list[float]] = {}
    for one in measured:
        values.setdefault(one.way, []).extend(one.rates[part].values)
    found = {way: spread(rates) for way, rates in values.items()}
    fastest = max(found, key=lambda way: found[way].median)
    return fastest, found[fastest]


def bound(measured: Sequence[Measured], known: Sequence[Measured] = ()) -> float:
    """Agent steps a second that cores could do which emulate, infer and learn every step.

    The better way is chosen from all ``known`` results: with only a few, one measured at a good
    moment would win by chance.
    """
    seconds = 0.0
    for part in BOUND_OF:
        way, _ = best(known or measured, part)
        _, rate = best([one for one in measured if one.way == way], part)
        seconds += 1.0 / rate.median
    return 1.0 / seconds
