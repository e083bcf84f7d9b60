"""Sample reports, for tests of the places that show them."""

from typing import Any

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import (
    STORE_EVERYTHING_SIZE_GUIDANCE,
    EventAccumulator,
)

from trainer.settings.config import Settings

ABOUT = {"agent": "SimpleConvNetAgent", "level": "PongNoFrameskip-v4", "weights": "1,684,128"}


def figures(frames=1_000_000, **changed):
    """A report of a run on Pong."""
    return {
        "environment_frames": frames,
        "agent_steps": frames // 4,
        "episodes": 120,
        "mean_episode_return": -12.5,
        "mean_episode_length": 1802.4,
        "frames_per_second": 2345.6,
        "steps_per_second": 586.4,
        "learner_wait_share": 0.4,
        "actor_wait_share": 0.03,
        "policy_lag": 1.5,
        "total_loss": 0.125,
        "policy_gradient_loss": 0.01,
        "baseline_loss": 0.23,
        "entropy": 1.71,
        "baseline_spread": 0.42,
        "gradient_norm": 0.33,
        "importance_weight": 1.01,
        "skipped": 0.0,
        "skipped_updates": 0,
        "wall_time": frames / 2500,
        "learning_rate": 0.0003,
        "time_left": 4000.0,
    } | changed


def samples(seed=0):
    """The samples of histograms."""
    return {"baseline": np.random.default_rng(seed).normal(2.0, 1.0, (21, 8)).astype(np.float32)}


LEVELS = ["PongNoFrameskip-v4", "BreakoutNoFrameskip-v4", "CartPole-v1"]


def of_levels(frames=1_000_000, levels=tuple(LEVELS), **changed):
    """A report of a run on several levels; the last one has no finished episode yet."""
    returns: dict[str, float | None] = {
        f"mean_episode_return/{level}": 10.0 + i for i, level in enumerate(levels)
    }
    returns[f"mean_episode_return/{levels[-1]}"] = None
    return figures(frames, **returns, **changed)


def settings_of(folder, **changed):
    """The settings of such a run."""
    chosen: dict[str, Any] = {
        "agent_name": "SimpleConvNetAgent",
        "total_environment_frames": 16_000_000,
    }
    return Settings(logdir=str(folder), **chosen | changed)


def events(folder):
    """A folder's events, as TensorBoard reads them."""
    accumulator = EventAccumulator(str(folder), STORE_EVERYTHING_SIZE_GUIDANCE)
    return accumulator.Reload()


def scalars(folder):
    """Steps and values of each scalar in TensorBoard, by name."""
    read = events(folder)
    return {
        tag: [(event.step, event.value) for event in read.Scalars(tag)]
        for tag in read.Tags()["scalars"]
    }
