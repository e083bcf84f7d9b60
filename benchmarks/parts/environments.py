"""Steps a second of environments, simple to complex, by their number and by threads.

  python -m benchmarks environments
  python -m benchmarks environments --level_names=Hopper-v5,Humanoid-v5 --num_envs=16 --threads=1,4

An environment is stepped as an actor steps it, with random actions. Atari's emulators run in
threads of their own: so many of one actor. Others are played by so many actor threads, with as
many environments each as there are for it; they gain from threads only what their simulator
does without holding Python's lock.

ViZDoom is not installed with the trainer: `.venv/bin/python -m pip install vizdoom` adds it.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence

import numpy as np

import environments
from benchmarks.tools import common
from benchmarks.tools.common import Options, numbers, spread
from benchmarks.tools.machine import cores
from benchmarks.tools.report import Column, Report
from environments.names import AtariLevel, find
from flags import setting
from trainer.machine.threads import threads_named
from user_error import UserError

LEVELS = (
    "CartPole-v1",
    "BreakoutNoFrameskip-v4",
    "Hopper-v5",
    "Humanoid-v5",
    "benchmarks.tools.vizdoom_level:make",
)
OPTIONAL = {"benchmarks.tools.vizdoom_level:make": "vizdoom"}
COLUMNS = (
    Column("level", 30),
    Column("environments", 13),
    Column("threads", 8),
    Column("agent steps/s", 28, ",.0f"),
    Column("frames/s", 10, ",.0f"),
)
# Actions are drawn before the clock starts, and repeated.
ROUNDS = 16


@dataclasses.dataclass(frozen=True)
class Own(Options):
    level_names: str = setting(",".join(LEVELS), "Measuring", "levels, with commas between")
    num_envs: str = setting("1,8,32", "Measuring", "environments, with commas between")
    threads: str = setting("0", "Measuring", "threads, with commas between; 0: 1, and one a core")
    seconds: float = setting(1.0, "Measuring", "for each measurement", above=0)


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "environments", __doc__, arguments)
    counts = numbers("num_envs", own.num_envs)
    threads = numbers("threads", own.threads, least=0)
    if 0 in threads:
        threads = sorted({1, cores(), *threads} - {0})
    names = own.level_names.split(",")
    for name in names:
        if name not in OPTIONAL:
            find(name)  # refuses before anything is measured
    what = "environments alone, random actions"
    report = Report("environments", COLUMNS, own, "no arithmetic", what)
    for name in names:
        missing = why_missing(name)
        if missing:
            report.row(name, missing, "", None, None)
            continue
        for count in counts:
            for many in threads:
                if many <= count:
                    add(report, own, name, count, many)
    report.finish("agent steps/s")


def why_missing(name: str) -> str:
    """Why a level that is not installed with the trainer cannot be measured; empty if it can."""
    if name not in OPTIONAL:
        return ""
    try:
        environments.spec(name)
    except (UserError, ImportError) as error:
        return f"not here: {error}"
    return ""


def add(report: Report, own: Own, name: str, count: int, threads: int) -> None:
    """Measures a level, and adds its row."""
    own_threads = isinstance(find(name), AtariLevel)
    batches = (
        [batch(own, name, count, threads)]
        if own_threads
        else [batch(own, name, len(part), 1) for part in np.array_split(np.arange(count), threads)]
    )
    calls = [functools.partial(step, one, actions) for one, actions in batches]
    common.rate(calls, min(own.seconds, 0.5))
    rate = spread([common.rate(calls, own.seconds) for _ in range(own.repeats)])
    spec = batches[0][0].spec
    for one, _ in batches:
        one.close()
    report.row(name, str(count), str(threads), rate, rate.median * spec.frames_per_step)


def batch(
    own: Own, name: str, count: int, threads: int
) -> tuple[environments.VectorEnvironment, list[np.ndarray]]:
    """Environments that were reset, and actions for them."""
    with threads_named("emulator"):
        made = environments.make(name, count, own.seed, num_threads=threads)
    made.reset()
    space = made.spec.action_space
    space.seed(own.seed)
    return made, [np.array([space.sample() for _ in range(count)]) for _ in range(ROUNDS)]


def step(made: environments.VectorEnvironment, actions: Sequence[np.ndarray]) -> int:
    """Steps all environments a few times; the number of agent steps."""
    for action in actions:
        made.step(action)
    made.episodes()
    return made.num_envs * len(actions)


if __name__ == "__main__":
    sys.exit(common.run("environments", measure))
