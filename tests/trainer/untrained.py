"""Folders of finished runs whose agent has learned nothing."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from algorithms.own_settings.impala import ImpalaSettings
from trainer import build
from trainer.learning.learner import named
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Checkpoint, Store


def make_run(folder: Path, level_name: str, *, frames: int = 1000, **changes: Any) -> Settings:
    """Writes a checkpoint to a run's folder; returns the settings of its training."""
    settings = Settings(level_name=level_name, logdir=str(folder), **changes)
    spec = build.level_spec(settings)
    settings = build.complete(settings, spec)
    # A fresh agent's policy is uniform, which would hide mistakes.
    random = np.random.default_rng(settings.program.seed)
    weights = {
        name: np.asarray(variable + 0.1 * random.normal(size=variable.shape).astype(np.float32))
        for name, variable in named(build.learning_agent(settings, spec).variables).items()
    }
    levels = len(settings.level.levels)
    estimates = {"popart_mean": 2.0, "popart_variance": 9.0, "popart_seen": 5.0}
    kept = {name: np.full([levels], value, np.float32) for name, value in estimates.items()}
    counters = {"environment_frames": frames}
    checkpoint = Checkpoint(
        weights,
        {},
        kept if getattr(settings.algorithm, "popart", False) else {},
        counters,
        settings.flat(),
    )
    Store(folder / "checkpoints", 3).save(checkpoint)
    return settings


class Uneven(gymnasium.Env):
    """Episodes of 1 or of 40 steps, drawn at the reset, with a reward of 1 a step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = self.draw()
        return np.zeros(1, np.float32), {}

    def draw(self) -> int:
        """The next episode's length."""
        return int(self.np_random.choice([1, 40]))

    def step(self, action: Any) -> Any:
        self.left -= 1
        return np.zeros(1, np.float32), 1.0, self.left == 0, False, {}


class Continuous(Uneven):
    """The same with an action of two real numbers; it can be rendered."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    action_space = gymnasium.spaces.Box(-2, 2, (2,), np.float32)

    def __init__(self, render_mode: str | None = None):
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.full((60, 90, 3), 4 * self.left, np.uint8)


class Several(Uneven):
    """The same with two choices at once."""

    action_space = gymnasium.spaces.MultiDiscrete([2, 3])


@dataclasses.dataclass(frozen=True)
class Mine(ImpalaSettings):
    """An algorithm of one's own, with its own defaults of what decides how an agent plays."""

    defaults: ClassVar[Mapping[str, Any]] = {"activation": "relu", "num_action_repeats": 4}
