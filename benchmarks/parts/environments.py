"""Steps a second of environments, simple to complex, with their bytes and their cores.

  python -m benchmarks environments
  python -m benchmarks environments --level_names=Hopper-v5,Humanoid-v5 --num_envs=16 --threads=1,4

An environment is stepped as an actor steps it, with random actions. Atari's emulators run in
threads of their own: so many of one actor. Others are played by so many actor threads, with as
many environments each as there are for it; they gain from threads only what their simulator
does without holding Python's lock. Browsers, desktops and builds of Unity are processes of their
own: four at most, in one thread. Desktops go on by themselves, so their steps are the ticks of
their clock. Each agent of a build counts as an environment. A level whose extra is not installed
gets a line that says so, as does one whose program ends.

Levels `dummy:OBS-FPS` show noise of a size, and work so long on each step: beside them, what a
level's size costs can be told from what its simulator costs.

Bytes are those of an observation as its actor keeps it; of stacked frames the newest. The CPU
share is that of all cores that may be used, by this process and those that it has started.
"""

import dataclasses
import functools
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import psutil

import environments
from benchmarks.tools import common
from benchmarks.tools.common import Options, Spread, numbers, spread
from benchmarks.tools.cpu_time import worked
from benchmarks.tools.report import Column, Report
from environments.names import AtariLevel, find
from environments.python.dummy import DummyLevel
from flags import setting
from trainer.machine.quota import usable_cores
from trainer.machine.threads import threads_named
from user_error import EndedOutside, UserError

LEVELS = (
    "CartPole-v1",
    "BreakoutNoFrameskip-v4",
    "Hopper-v5",
    "Humanoid-v5",
    "procgen:coinrun",
    "doom:basic",
    "browser:miniwob/click-test-v1",
    "browser:dino",
    "vnc:Catch-v0",
    "vnc:PongNoFrameskip-v4",
    "unity:3dball",
    "dummy:16-100000",
    "dummy:480x640x3-100000",
    "dummy:16-1000",
    "dummy:480x640x3-1000",
)
COLUMNS = (
    Column("level", 36),
    Column("environments", 13),
    Column("threads", 8),
    Column("agent steps/s", 28, ",.0f"),
    Column("frames/s", 10, ",.0f"),
    Column("bytes a step", 13, ",d"),
    Column("CPU share", 10, ".0%"),
)
# Actions are drawn before the clock starts, and repeated.
ROUNDS = 16
MOST_PROGRAMS = 4  # browsers, desktops or builds at the same time
PROGRAMS = ("browser:", "vnc:", "unity:")


@dataclasses.dataclass(frozen=True)
class Own(Options):
    level_names: str = setting(",".join(LEVELS), "Measuring", "levels, with commas between")
    num_envs: str = setting("1,8,32", "Measuring", "environments, with commas between")
    threads: str = setting("0", "Measuring", "threads, with commas between; 0: 1, and one a core")
    seconds: float = setting(1.0, "Measuring", "for each measurement", above=0)


class Batch(NamedTuple):
    """Environments that were reset, and actions for them."""

    made: environments.VectorEnvironment
    actions: list[np.ndarray]


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "environments", __doc__, arguments)
    counts = numbers("num_envs", own.num_envs)
    threads = numbers("threads", own.threads, least=0)
    if 0 in threads:
        threads = sorted({1, usable_cores(), *threads} - {0})
    if min(threads) > max(counts):
        raise UserError(
            f"--threads={own.threads}: expected some that are at most --num_envs={own.num_envs}."
        )
    names = own.level_names.split(",")
    for name in names:
        if name not in LEVELS:
            find(name)  # refuses before anything is measured
    what = "environments alone, random actions"
    report = Report("environments", COLUMNS, own, "no arithmetic", what)
    with report.finished("agent steps/s"):
        for name in names:
            try:
                for count, many in sizes(name, counts, threads):
                    add(report, own, name, count, many)
            except (UserError, ImportError) as error:
                report.row(name, f"not here: {_first_line(error)}", "", None, None, None, None)
            except EndedOutside as error:
                report.row(name, f"broke off: {_first_line(error)}", "", None, None, None, None)


def sizes(name: str, counts: Sequence[int], threads: Sequence[int]) -> list[tuple[int, int]]:
    """How many environments and threads a level is measured with."""
    find(name)
    if name.startswith(PROGRAMS):
        return [(count, 1) for count in sorted({min(count, MOST_PROGRAMS) for count in counts})]
    return [(count, many) for count in counts for many in threads if many <= count]


def add(report: Report, own: Own, name: str, count: int, threads: int) -> None:
    """Measures a level, and adds its row."""
    own_threads = isinstance(find(name), AtariLevel)
    batches = (
        [batch(own, name, count, threads)]
        if own_threads
        else [batch(own, name, len(part), 1) for part in np.array_split(np.arange(count), threads)]
    )
    try:
        rate, share = rates(own, batches)
    finally:
        for one in batches:
            one.made.close()
    spec = batches[0].made.spec
    space = spec.observation_space
    size = int(np.prod(space.shape)) * space.dtype.itemsize
    count = sum(one.made.num_envs for one in batches)  # a build of Unity may bring more
    report.row(
        name, str(count), str(threads), rate, rate.median * spec.frames_per_step, size, share
    )


def rates(own: Own, batches: Sequence[Batch]) -> tuple[Spread, float]:
    """Agent steps a second, and the share of the cores that they took."""
    calls = [functools.partial(step, one) for one in batches]
    common.rate(calls, min(own.seconds, 0.5))
    started, worked = time.perf_counter(), cpu_seconds()
    found = spread([common.rate(calls, own.seconds) for _ in range(own.repeats)])
    return found, (cpu_seconds() - worked) / (time.perf_counter() - started) / usable_cores()


def cpu_seconds() -> float:
    """What this process and all that it has started have worked until now."""
    me = psutil.Process()
    return worked([me, *me.children(recursive=True)])


def batch(own: Own, name: str, count: int, threads: int) -> Batch:
    """So many environments of a level, ready to be stepped."""
    level = find(name)
    view: dict[str, Any] = {}
    if isinstance(level, DummyLevel) and len(level.shape) == 3:
        view = dict(zip(("height", "width"), level.shape, strict=False))  # all of its size
    with threads_named("emulator"):
        made = environments.make(name, count, own.seed, num_threads=threads, **view)
    try:
        made.reset()
    except BaseException:
        made.close()
        raise
    space = made.spec.action_space
    space.seed(own.seed)
    actions = [np.array([space.sample() for _ in range(made.num_envs)]) for _ in range(ROUNDS)]
    return Batch(made, actions)


def step(one: Batch) -> int:
    """Steps all environments a few times; the number of agent steps."""
    for action in one.actions:
        one.made.step(action)
    one.made.episodes()
    return one.made.num_envs * len(one.actions)


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0]


if __name__ == "__main__":
    sys.exit(common.run("environments", measure))
