"""A trained agent as a run's checkpoint holds it, for playing and for export."""

import dataclasses
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.popart import PopArt
from environments import EnvironmentSpec
from trainer.acting import build
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Checkpoint, Store
from user_error import UserError

# What the run was trained with holds unless another value is given.
INHERITED_GROUPS = ("Environment", "Agent")


@dataclasses.dataclass(frozen=True)
class Trained:
    """A checkpoint, and the settings to use it with."""

    settings: Settings
    folder: Path  # of the run
    path: Path  # of the checkpoint
    checkpoint: Checkpoint

    @property
    def environment_frames(self) -> int:
        """How long it was trained."""
        return int(self.checkpoint.counters["environment_frames"])

    @property
    def levels(self) -> list[str]:
        """The levels that it was trained on."""
        return self.settings.replace(level_name=self._then("level_name")).level.levels

    def agent(self, spec: EnvironmentSpec, precision: str = "") -> Any:
        """The trained agent in this precision, or that of ``--precision``."""
        settings = self.settings.replace(
            # How many baselines it has goes by the levels of its training.
            level_name=self._then("level_name"),
            precision=precision or self.settings.agent.precision,
        )
        agent = build.acting_agent(settings, spec)
        weights, variables = list(self.checkpoint.weights.values()), agent.variables
        if [w.shape for w in weights] != [tuple(v.shape) for v in variables]:
            raise UserError(self._misfit())
        for variable, value in zip(variables, weights, strict=True):
            variable.assign(tf.cast(value, variable.dtype))
        return agent

    def scale_of_values(self) -> tuple[np.ndarray, np.ndarray]:
        """Spread and mean that turn the agent's baselines into values: [L], or [] for one."""
        spread, mean = np.ones(1, np.float32), np.zeros(1, np.float32)
        if "popart_mean" in self.checkpoint.algorithm:
            spread, mean = PopArt.scale(self.checkpoint.algorithm)
        return (spread[0], mean[0]) if len(mean) == 1 else (spread, mean)

    def value(self, level_name: str) -> Callable[[np.ndarray], float]:
        """From an environment's baseline, [] or [L], to its value on a level."""
        spread, mean = self.scale_of_values()
        index = self.levels.index(level_name) if level_name in self.levels else 0
        return lambda baseline: float(np.ravel(baseline * spread + mean)[index * bool(mean.ndim)])

    def _then(self, name: str) -> Any:
        return self.checkpoint.settings.get(name, self.settings.flat()[name])

    def _misfit(self) -> str:
        then = self.checkpoint.settings
        given = {
            name: self.settings.flat()[name]
            for name in inherited()
            if name in then and self.settings.flat()[name] != then[name]
        }
        if not given:
            return (
                f"--checkpoint: the weights in {self.path} do not fit "
                f"--agent_name={self.settings.agent.agent_name} as it is now."
            )
        wanted = " ".join(f"--{name}={value}" for name, value in given.items())
        before = " ".join(f"--{name}={then[name]}" for name in given)
        return (
            f"{wanted} does not fit the weights in {self.path}, which were trained with "
            f"{before}. Leave it out, or choose another run with --logdir."
        )


def find(settings: Settings, given: Collection[str] = ()) -> Trained:
    """The checkpoint that ``--logdir`` and ``--checkpoint`` ask for.

    Settings that were ``given`` hold, also where they are defaults.
    """
    try:
        folder = _run_folder(settings)
        store = Store(folder / "checkpoints", settings.storage.keep_checkpoints)
        path, checkpoint = store.find(settings.trained.checkpoint, _warn)
    except OSError as error:
        raise UserError(
            f"--logdir={settings.run_folder} --checkpoint={settings.trained.checkpoint}: "
            f"{error.filename} cannot be read ({error.strerror})."
        ) from None
    changes = {
        name: checkpoint.settings[name]
        for name, default in inherited().items()
        if name in checkpoint.settings and name not in given and settings.flat()[name] == default
    }
    settings = settings.replace(logdir=str(folder), **changes)
    return Trained(settings, folder, path, checkpoint)


def inherited() -> dict[str, Any]:
    """The settings that are taken over from the run, and their defaults."""
    return {
        field.name: field.default
        for field in config.fields()
        if field.metadata["group"] in INHERITED_GROUPS or field.name == "popart"
    }


def _run_folder(settings: Settings) -> Path:
    """The run's folder; a checkpoint given by its file alone says it itself."""
    file = Path(settings.trained.checkpoint)
    if settings.storage.logdir or not file.is_file():
        return Path(settings.run_folder)
    return file.parent.parent if file.parent.name == "checkpoints" else file.parent


def _warn(told: str) -> None:
    print(f"warning: {told}", file=sys.stderr)
