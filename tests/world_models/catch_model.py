"""Small world models of Catch for tests."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from environments import EnvironmentSpec
from trainer import build
from trainer.settings.config import Settings
from trainer.storage.played import Part
from world_models.networks.loss import Windows
from world_models.training import playing

SMALL: dict[str, Any] = {
    "algorithm": "simple",
    "level_name": "Catch-v0",
    "agent_name": "ResNetAgent",
    "channels": "4,4,4",
    "width": 10,
    "height": 10,
    "precision": "float32",
    "env_processes": "0",
    "model_epochs": 1,
    "real_steps": 120,
    "real_envs": 4,
    "model_updates": 4,
    "dream_ratio": 1.0,
    "rollout_length": 6,
    "model_filters": 4,
    "model_doublings": 1,
    "model_depth": 1,
    "model_levels": 16,
    "model_frames": 2,
    "model_state": 2,
    "model_bits": 8,
    "model_batch": 4,
    "target_frames": 2,
    "envs_per_actor": 4,
    "batch_size": 4,
    "unroll_length": 6,
    "base_settings": "epochs=1,minibatches=1",
}


def small(**changes: Any) -> Settings:
    """Settings of a run that takes a few seconds."""
    return Settings(**SMALL | changes)


def flags(folder: Path, **changes: Any) -> list[str]:
    """The command line of such a run."""
    given = SMALL | {"logdir": str(folder), "report_every_s": 0.5} | changes
    return [f"--{name}={value}" for name, value in given.items()]


def spec_of(settings: Settings) -> EnvironmentSpec:
    """The level's."""
    return build.level_spec(settings)


def played(settings: Settings, steps: int = 200) -> Part:
    """Random play."""
    with playing.real_game(settings, 4, 0) as game:
        return playing.Games(game).play(playing.at_random(3, 1), steps)[0]


def frames(*brightness: int) -> np.ndarray:
    """Pictures of one pixel [T, 1, 1, 1, 1] for one game."""
    return np.array(brightness, np.uint8).reshape(-1, 1, 1, 1, 1)


def windows(count: int, seed: int) -> Windows:
    """A dot that moves as the action says; at the right edge, a reward and the end."""
    random = np.random.default_rng(seed)
    column, action = random.integers(1, 9, count), random.integers(0, 3, [count, 2])
    places = np.stack([column, column, column + action[:, 0] - 1], 1)
    places = np.append(places, np.clip(places[:, 2:] + action[:, 1:] - 1, 0, 9), 1)
    pictures = np.zeros([count, 4, 10, 10, 1], np.uint8)
    rows, times = np.indices(places.shape)
    pictures[rows, times, 4, places] = 255
    over = places[:, 2:] == 9
    valid = [[1.0, 0.0] if one else [1.0, 1.0] for one in over[:, 0]]
    return Windows(
        tf.constant(pictures),
        tf.constant(action.astype(np.int32)),
        tf.constant(5.0 * over.astype(np.float32)),
        tf.constant(over),
        tf.constant(valid),
    )
