"""What a batch of environments costs beside the bare vector environment beneath it.

  python -m benchmarks environment_overhead
  python -m benchmarks environment_overhead --level_name=CartPole-v1 --num_envs=8

Bare and ours take turns, with the same seeds and the same random actions, so that neither a
busy machine nor a dearer state of the game favours one of them. A ratio is taken within each
turn; the table shows the medians. Wanted: no less than 0.90 of the bare one at 32 Atari games.
"""

import dataclasses
import functools
import sys
import time
from collections.abc import Callable

import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv

import environments
from benchmarks.tools import common
from benchmarks.tools.common import Options, spread
from benchmarks.tools.report import Column, Report
from environments.levels import environment_seeds
from environments.names import AtariLevel, GymnasiumLevel, find
from flags import setting
from user_error import UserError

OURS = "environments.make"
WANTED = 0.90
COLUMNS = (
    Column("what", 28),
    Column("agent steps/s", 26, ",.0f"),
    Column("ours / this", 18, ".2f"),
)

Step = Callable[[np.ndarray], object]


@dataclasses.dataclass(frozen=True)
class Own(Options):
    repeats: int = setting(40, "Measuring", "turns of each, after one to warm up", least=1)
    level_name: str = setting("PongNoFrameskip-v4", "Measuring", "as for the trainer")
    num_envs: int = setting(32, "Measuring", "environments side by side", least=1)
    num_threads: int = setting(2, "Measuring", "emulator threads, for Atari", least=1)
    num_steps: int = setting(25, "Measuring", "steps of the batch in a turn", least=1)


def bare_atari(own: Own, level: AtariLevel, stack: int) -> Step:
    """ale-py itself, with the same preprocessing."""
    env = AtariVectorEnv(
        level.rom,
        own.num_envs,
        num_threads=own.num_threads,
        stack_num=stack,
        reward_clipping=False,
        repeat_action_probability=level.sticky_actions,
    )
    env.reset(seed=environment_seeds(own.seed, own.num_envs))
    return env.step


def bare_gymnasium(own: Own) -> Step:
    """Gymnasium's own batch."""
    env = gymnasium.make_vec(own.level_name, own.num_envs, vectorization_mode="sync")
    seed = int(environment_seeds(own.seed, own.num_envs)[0])
    env.reset(seed=seed)  # the others follow it
    return env.step


def contenders(own: Own) -> dict[str, Step]:
    """What takes turns; ours comes last."""
    level = find(own.level_name)
    if not isinstance(level, AtariLevel | GymnasiumLevel):
        raise UserError(
            f"--level_name={own.level_name}: nothing bare is known to compare with; expected an "
            "Atari game or an environment of Gymnasium."
        )
    ours = environments.make(own.level_name, own.num_envs, own.seed, num_threads=own.num_threads)
    ours.reset()
    bare: dict[str, Step]
    if isinstance(level, AtariLevel):
        bare = {
            f"AtariVectorEnv, {stack} frame{'s' * (stack > 1)}": bare_atari(own, level, stack)
            for stack in (4, 1)
        }
    else:
        bare = {"gymnasium.make_vec, sync": bare_gymnasium(own)}
    return {**bare, OURS: ours.step}


def rate(step: Step, actions: np.ndarray) -> float:
    """Agent steps a second over these actions [T, N, ...]."""
    start = time.perf_counter()
    for action in actions:
        step(action)
    return actions.shape[0] * actions.shape[1] / (time.perf_counter() - start)


def random_actions(own: Own, steps: int) -> np.ndarray:
    """Random actions [T, N, ...] in the agent's space."""
    space = environments.spec(own.level_name).action_space
    space.seed(own.seed)
    return np.array([[space.sample() for _ in range(own.num_envs)] for _ in range(steps)])


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "environment_overhead", __doc__, arguments)
    steps = contenders(own)
    turns = 1 + own.repeats
    rates: dict[str, list[float]] = {name: [] for name in steps}
    with common.whole_turns(rates, functools.partial(write, own), warm_up=1):
        for actions in np.split(random_actions(own, turns * own.num_steps), turns):
            for name, step in steps.items():
                rates[name].append(rate(step, actions))


def write(own: Own, rates: dict[str, list[float]]) -> None:
    """Prints the table and writes the files."""
    what = (
        f"{own.level_name}, {own.num_envs} environments, {own.num_threads} threads, turns of "
        f"{own.num_steps} steps"
    )
    report = Report("environment_overhead", COLUMNS, own, "no arithmetic", what)
    for name, measured in rates.items():
        ratios = [mine / this for mine, this in zip(rates[OURS], measured, strict=True)]
        report.row(name, spread(measured), spread(ratios))
    print(f"\ngoal for 32 Atari games: {WANTED:.2f} or more")
    report.finish("ours / this", WANTED)


if __name__ == "__main__":
    sys.exit(common.run("environment_overhead", measure))
