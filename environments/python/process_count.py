"""How many worker processes make the steps of a batch faster, where the user leaves it open."""

import os
import statistics
import time
from typing import Any

import gymnasium
import numpy as np

from environments.python.masks import KEY

# Below this, what it costs to wake processes and to wait for them outweighs what they save; see
# `python -m benchmarks environment_processes`.
WORTHWHILE_S = 0.001
MOST_STEPS = 100
LONGEST_S = 0.25


def process_count(env: gymnasium.Env, num_envs: int, batches: int, cores: int = 0) -> int:
    """Worker processes for a batch of environments like this one; 0: none.

    `batches` is the number of batches that share this process and its `cores` (0: all that it may
    use). `env` is played, for a quarter of a second at most.
    """
    cores = cores or len(os.sched_getaffinity(0))
    if cores == 1 or num_envs * batches * step_time(env) < WORTHWHILE_S:
        return 0
    return min(max(1, cores // batches), num_envs)


def step_time(env: gymnasium.Env) -> float:
    """The median time of an environment's step with random actions, in seconds."""
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < MOST_STEPS and time.perf_counter() - started < LONGEST_S:
        action, start = _allowed(env.action_space, info), time.perf_counter()
        _, _, terminated, truncated, info = env.step(action)
        times.append(time.perf_counter() - start)
        if terminated or truncated:
            _, info = env.reset()
    return statistics.median(times)


def _allowed(actions: gymnasium.Space, info: dict[str, Any]) -> Any:
    """A random action; one that the environment allows now, if it says which it does."""
    given = info.get(KEY)
    if not isinstance(actions, gymnasium.spaces.Discrete) or given is None:
        return actions.sample()  # masks of other spaces have forms of their own
    try:
        mask = np.asarray(given, np.int8).ravel()
    except (TypeError, ValueError):  # told where the masks are asked for
        return actions.sample()
    return actions.sample(mask=mask) if len(mask) == actions.n and mask.any() else actions.sample()
