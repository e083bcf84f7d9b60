"""What a batch of environments costs beside the bare vector environment beneath it.

    python -m benchmarks.environment_overhead [--level_name=…] [--num_envs=32] [--num_threads=2]

Bare and ours take turns, with the same seeds and the same random actions, so that neither a
busy machine nor a dearer state of the game favours one of them. A ratio is taken within each
turn; the table shows the medians. Wanted: no less than 0.90 of the bare one at 32 Atari games.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv

import environments
from benchmarks.machine import processor
from environments.levels import environment_seeds
from environments.names import AtariLevel, find

SEED = 1
WANTED = 0.90

Step = Callable[[np.ndarray], object]


def bare_atari(rom: str, sticky: float, num_envs: int, num_threads: int, stack: int) -> Step:
    """ale-py itself, with the same preprocessing."""
    env = AtariVectorEnv(
        rom,
        num_envs,
        num_threads=num_threads,
        stack_num=stack,
        reward_clipping=False,
        repeat_action_probability=sticky,
    )
    env.reset(seed=environment_seeds(SEED, num_envs))
    return env.step


def bare_gymnasium(level_name: str, num_envs: int) -> Step:
    """Gymnasium's own batch."""
    env = gymnasium.make_vec(level_name, num_envs, vectorization_mode="sync")
    env.reset(seed=int(environment_seeds(SEED, num_envs)[0]))  # the others follow it
    return env.step


def contenders(level_name: str, num_envs: int, num_threads: int) -> dict[str, Step]:
    """What takes turns; ours comes last."""
    ours = environments.make(level_name, num_envs, SEED, num_threads=num_threads)
    ours.reset()
    level = find(level_name)
    bare: dict[str, Step]
    if isinstance(level, AtariLevel):
        game = (level.rom, level.sticky_actions, num_envs, num_threads)
        bare = {
            f"AtariVectorEnv, {stack} frame{'s' * (stack > 1)}": bare_atari(*game, stack)
            for stack in (4, 1)
        }
    else:
        bare = {"gymnasium.make_vec, sync": bare_gymnasium(level_name, num_envs)}
    return {**bare, "environments.make": ours.step}


def rate(step: Step, actions: np.ndarray) -> float:
    """Agent steps a second over these actions [T, N, ...]."""
    start = time.perf_counter()
    for action in actions:
        step(action)
    return actions.shape[0] * actions.shape[1] / (time.perf_counter() - start)


def random_actions(level_name: str, shape: tuple[int, int]) -> np.ndarray:
    """Random actions [T, N, ...] in the agent's space."""
    space = environments.spec(level_name).action_space
    space.seed(SEED)
    return np.array([[space.sample() for _ in range(shape[1])] for _ in range(shape[0])])


def main() -> None:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    flags.add_argument("--level_name", default="PongNoFrameskip-v4")
    flags.add_argument("--num_envs", type=int, default=32)
    flags.add_argument("--num_threads", type=int, default=2)
    flags.add_argument("--num_steps", type=int, default=25, help="steps of the batch in a turn")
    flags.add_argument(
        "--repeats", type=int, default=40, help="turns of each, after one to warm up"
    )
    given = flags.parse_args()

    steps = contenders(given.level_name, given.num_envs, given.num_threads)
    rates: dict[str, list[float]] = {name: [] for name in steps}
    shape = ((1 + given.repeats) * given.num_steps, given.num_envs)
    turns = np.split(random_actions(given.level_name, shape), 1 + given.repeats)
    for turn in turns:
        for name, step in steps.items():
            rates[name].append(rate(step, turn))

    *_, ours = rates
    print(processor())
    print(f"{given.level_name}, {given.num_envs} environments, {given.num_threads} threads")
    print(f"{given.repeats} turns of {shape[0] // len(turns)} steps each, warm-up left out\n")
    print(f"{'what':<28}{'agent steps/s':>14}{'ours / this':>13}{'range':>16}")
    for name, measured in rates.items():
        ratios = [ours / this for ours, this in zip(rates[ours][1:], measured[1:], strict=True)]
        print(
            f"{name:<28}{statistics.median(measured[1:]):>14,.0f}"
            f"{statistics.median(ratios):>13.3f}{min(ratios):>9.2f} – {max(ratios):.2f}"
        )
    print(f"\nwanted of 32 Atari games: {WANTED:.2f} or more")


if __name__ == "__main__":
    main()
