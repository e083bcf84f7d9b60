"""Shared by all benchmarks: flags, taking turns, medians and spreads."""

import contextlib
import dataclasses
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import flags
from benchmarks.tools import files
from flags import setting
from trainer.machine.quiet import import_tensorflow
from trainer.settings import checks, config, sizes
from trainer.settings.config import Settings
from user_error import UserError, exit_code

# The groups of the trainer's flags that a benchmark can pass on to what it measures.
PASSED_ON = ("Environment", "Actors", "Agent", "Learning")
DECIDED = ("total_environment_frames",)


@dataclasses.dataclass(frozen=True)
class Once:
    """The flags of every benchmark; one that has more inherits from this."""

    seed: int = setting(1, "Measuring", "random seed", least=0, most=2**31 - 1)
    results: str = setting("benchmarks/results", "Measuring", "folder for NAME.json and NAME.png")


@dataclasses.dataclass(frozen=True)
class Options(Once):
    """Those of a benchmark that measures things again."""

    repeats: int = setting(5, "Measuring", "measurements of each, after one to warm up", least=1)


Own = TypeVar("Own", bound=Once)
Key = TypeVar("Key")
Value = TypeVar("Value")


def parse(
    kind: type[Own], name: str, about: str | None, arguments: Sequence[str], trainer: bool = False
) -> tuple[Own, Settings]:
    """A benchmark's own flags, and the trainer's where it passes them on.

    The caller still has to check the trainer's flags together (``checks.check``).
    """
    own = dataclasses.fields(kind)
    taken = {*DECIDED, *[field.name for field in own]}
    passed_on = [
        field
        for field in config.fields(config.algorithm_in(arguments))
        if trainer and field.metadata["group"] in PASSED_ON and field.name not in taken
    ]
    parser = flags.parser_of([*own, *passed_on], f"python -m benchmarks {name}", about or "", "")
    values = flags.parse(parser, arguments)
    options = kind(**{field.name: values[field.name] for field in own})
    settings = Settings(
        seed=options.seed, **{field.name: values[field.name] for field in passed_on}
    )
    flags.check_ranges(options)
    checks.check_ranges(settings)
    files.folder(options.results)
    return options, settings


def in_a_cluster(settings: Settings, actors: int) -> Settings:
    """As the frontend sets up so many actors on one machine; 0: nobody knows how many."""
    checks.check_played(settings, range(actors), f"--actors={actors}")
    import_tensorflow()
    from trainer import build  # an actor's own choices depend on the level

    actor = sizes.filling(settings, actors, 1).replace(job_name="actor")
    given = settings.actors.actors_on_host
    return settings.replace(
        envs_per_actor=sizes.envs_per_actor(build.complete(actor, build.level_spec(actor))),
        actors_on_host=given if given > 1 else max(1, actors),
    )


def numbers(flag: str, text: str, least: int = 1) -> list[int]:
    """Whole numbers, separated by commas."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < least:
        raise UserError(f"--{flag}={text}: expected numbers from {least}, separated by commas.")
    return found


def words(flag: str, text: str, known: Collection[str]) -> list[str]:
    """Words of a list of known ones, separated by commas."""
    found = text.split(",")
    if not set(found) <= set(known):
        raise UserError(f"--{flag}={text}: known are {', '.join(known)}.")
    return found


def unwind_when_stopped() -> None:
    """From now on ends as Ctrl-C does, so that what was started for a measurement is ended."""
    for one in signal.SIGTERM, signal.SIGHUP:
        if signal.getsignal(one) != signal.SIG_IGN:  # as nohup has it
            signal.signal(one, lambda number, _: sys.exit(128 + number))


def run(name: str, measure: Callable[[list[str]], None]) -> int:
    """A benchmark as a program; returns the exit code."""
    unwind_when_stopped()
    return exit_code(f"benchmarks {name}", lambda: measure(sys.argv[1:]))


class Spread(NamedTuple):
    """Repeated measurements of one thing."""

    median: float
    least: float
    most: float
    values: list[float]


def spread(values: Sequence[float]) -> Spread:
    """The median of measurements, and their range."""
    return Spread(statistics.median(values), min(values), max(values), list(values))


def in_turns(measures: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Measurements of each, taken in turns, so that a busy machine favours none of them.

    The first turn warms up and is left out.
    """
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(1 + repeats):
        for name, measure in measures.items():
            found[name].append(measure())
    return {name: values[1:] for name, values in found.items()}


@contextlib.contextmanager
def whole_turns(
    found: Mapping[Key, list[Value]],
    write: Callable[[dict[Key, list[Value]]], None],
    warm_up: int = 0,
) -> Iterator[None]:
    """At the end hands what was found to ``write``; if the block is stopped or fails, too.

    Then only turns count that everybody has finished, without the first ``warm_up``; without any,
    nothing is written.
    """
    try:
        yield
    finally:
        turns = min(map(len, found.values()), default=0)
        if turns > warm_up:
            write({key: values[warm_up:turns] for key, values in found.items()})


def rate(calls: Sequence[Callable[[], float]], seconds: float) -> float:
    """The work done per second when all calls are repeated side by side."""
    ended = threading.Event()

    def repeat(call: Callable[[], float]) -> float:
        done, start = 0.0, time.perf_counter()
        while time.perf_counter() - start < seconds and not ended.is_set():
            done += call()
        return done / (time.perf_counter() - start)

    with ThreadPoolExecutor(max(1, len(calls) - 1)) as others:
        rates = [others.submit(repeat, call) for call in calls[1:]]
        try:
            return repeat(calls[0]) + sum(rate.result() for rate in rates)
        finally:  # also where a call fails, or Ctrl-C ends it: nothing is called any more
            ended.set()


def progress(text: str) -> None:
    """Prints progress to standard error, apart from the table."""
    print(f"… {text}", file=sys.stderr, flush=True)
