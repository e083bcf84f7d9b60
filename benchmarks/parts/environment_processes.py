"""Steps a second of Python environments in this process and in worker processes.

  python -m benchmarks environment_processes
  python -m benchmarks environment_processes --level_names=CartPole-v1 --actors=1,2,4

Each actor is a thread that steps environments of its own with random actions. They run one after
another in the actor's thread, in Gymnasium's AsyncVectorEnv (a process for each environment), or
in a few worker processes of which each steps a slice. The ways take turns; a ratio is taken
within each turn, against the actor's thread.
"""

import contextlib
import dataclasses
import functools
import multiprocessing
import signal
import sys
from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv

import environments
from benchmarks.tools import common
from benchmarks.tools.common import Options, numbers, spread
from benchmarks.tools.report import Column, Report
from environments.names import (
    AtariLevel,
    BodiesLevel,
    PythonLevel,
    RealTimeLevel,
    UnityLevel,
    find,
)
from environments.python.levels import make_one
from environments.spaces import agent_actions
from environments.view import View
from flags import setting
from trainer.machine.quota import usable_cores
from user_error import UserError

THREAD = "actor's thread"
ASYNC = "AsyncVectorEnv"
COLUMNS = (
    Column("level", 16),
    Column("actors", 8),
    Column("way", 20),
    Column("agent steps/s", 26, ",.0f"),
    Column("this / thread", 18, ".2f"),
)
# Actions are drawn before the clock starts, and repeated.
ROUNDS = 16

Step = Callable[[np.ndarray], object]


@dataclasses.dataclass(frozen=True)
class Own(Options):
    level_names: str = setting(
        "CartPole-v1,LunarLander-v3,HalfCheetah-v5", "Measuring", "levels, with commas between"
    )
    num_envs: int = setting(10, "Measuring", "environments of an actor", least=1)
    actors: str = setting("1,2", "Measuring", "actors side by side, with commas between")
    processes: str = setting(
        "0", "Measuring", "worker processes of an actor, with commas between; 0: 1, and one a core"
    )
    seconds: float = setting(1.0, "Measuring", "for each measurement", above=0)


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "environment_processes", __doc__, arguments)
    actors = numbers("actors", own.actors)
    processes = numbers("processes", own.processes, least=0)
    if 0 in processes:
        processes = sorted({1, usable_cores(), *processes} - {0})
    names = own.level_names.split(",")
    for name in names:
        level_of(name)  # refuses before anything is measured
    what = f"{own.num_envs} environments for each actor, random actions"
    report = Report("environment_processes", COLUMNS, own, "no arithmetic", what)
    with report.finished("this / thread"):
        for name in names:
            for count in actors:
                add(report, own, name, count, processes)


def level_of(name: str) -> PythonLevel:
    """The level of a name, if it is written in Python."""
    level = find(name)
    if isinstance(level, AtariLevel):
        raise UserError(f"--level_names: {name} steps in threads of its emulators.")
    if isinstance(level, BodiesLevel):
        raise UserError(f"--level_names: {name} steps in its actor's thread only.")
    if isinstance(level, UnityLevel):
        raise UserError(f"--level_names: {name} steps in processes of its own.")
    if isinstance(level, RealTimeLevel):
        raise UserError(f"--level_names: {name} goes on by itself, whatever steps it.")
    return level


def add(report: Report, own: Own, name: str, actors: int, processes: list[int]) -> None:
    """Measures a level with so many actors, and adds its rows."""
    ways = {
        THREAD: functools.partial(ours, own, name, 0),
        ASYNC: functools.partial(bare, own, name),
    }
    for count in processes:
        ways[f"{count} worker{'s' * (count > 1)}"] = functools.partial(ours, own, name, count)
    actions = random_actions(own, name)
    with contextlib.ExitStack() as stack:
        steps = {way: [make(stack) for _ in range(actors)] for way, make in ways.items()}
        rates = common.in_turns(
            {
                way: functools.partial(
                    common.rate,
                    [functools.partial(play, step, actions) for step in those],
                    own.seconds,
                )
                for way, those in steps.items()
            },
            own.repeats,
        )
    for way, measured in rates.items():
        ratios = [one / thread for one, thread in zip(measured, rates[THREAD], strict=True)]
        report.row(name, str(actors), way, spread(measured), spread(ratios))


def ours(own: Own, name: str, processes: int, stack: contextlib.ExitStack) -> Step:
    """The trainer's own environments."""
    made = environments.make(name, own.num_envs, own.seed, env_processes=processes)
    stack.callback(made.close)
    made.reset()

    def step(actions: np.ndarray) -> None:
        made.step(actions)
        made.episodes()

    return step


def bare(own: Own, name: str, stack: contextlib.ExitStack) -> Step:
    """Gymnasium's processes, with the same wrappers and seeds."""
    made = functools.partial(make_one, level_of(name), name, View())

    def factory() -> gymnasium.Env:
        if multiprocessing.parent_process():  # Ctrl-C is for the process that measures
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return made()

    vector = AsyncVectorEnv([factory] * own.num_envs, shared_memory=True, copy=False)
    stack.callback(vector.close, terminate=True)  # also where it was left in the midst of a step
    vector.reset(seed=own.seed)
    _, environment_actions = agent_actions(vector.single_action_space, name)
    return lambda actions: vector.step(environment_actions(actions))


def random_actions(own: Own, name: str) -> list[np.ndarray]:
    """Actions of the agent for all environments, some times over."""
    space = environments.spec(name).action_space
    space.seed(own.seed)
    return [np.array([space.sample() for _ in range(own.num_envs)]) for _ in range(ROUNDS)]


def play(step: Step, actions: list[np.ndarray]) -> int:
    """Steps all environments a few times; the number of agent steps."""
    for action in actions:
        step(action)
    return sum(map(len, actions))


if __name__ == "__main__":
    sys.exit(common.run("environment_processes", measure))
