"""Trains the policy in the model, by the ordinary training of one machine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from environments import EnvironmentSpec, VectorEnvironment
from environments.dream import DreamEnvironment, Model
from trainer.programs import local
from trainer.programs.companions import Companion
from trainer.programs.stopping import StopSignal
from trainer.settings import sizes
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Store
from world_models.training.experience import Experience
from world_models.training.policy_settings import policy_settings
from world_models.training.world_model import WorldModel


def train_policy(
    settings: Settings,
    spec: EnvironmentSpec,
    model: WorldModel,
    real: Experience,
    total: int,
    stop: StopSignal,
    companions: Callable[..., Sequence[Companion]],
) -> dict[str, Any]:
    """Trains until ``total`` agent steps in the model; returns the last figures."""
    made = policy_settings(settings)
    made = made.replace(total_environment_frames=total * spec.frames_per_step)

    def dream(settings: Settings, index: int, start: int = 0) -> VectorEnvironment:
        seed = settings.program.seed + 1_000_003 * index + start
        return dreams(spec, model, real, seed, sizes.envs_per_actor(settings))

    return local.train(made, stop=stop, companions=companions, make_environment=dream).figures


def policy_steps(settings: Settings, spec: EnvironmentSpec) -> int:
    """Agent steps in the model that the newest policy of the run was trained for."""
    store = Store(Path(policy_settings(settings).run_folder) / "checkpoints", 1)
    found = store.newest(lambda text: None)
    return found[1].counters["environment_frames"] // spec.frames_per_step if found else 0


def dreams(
    spec: EnvironmentSpec,
    model: WorldModel,
    real: Experience,
    seed: int,
    count: int,
    length: int | None = None,
) -> DreamEnvironment:
    """``count`` dreams of this model that start from this real play."""
    own = model.settings.algorithm

    def starts(number: int, random: np.random.Generator) -> np.ndarray:
        return real.starts(number, own.true_starts, random)

    functions = Model(model.predict, model.initial_state, starts)
    return DreamEnvironment(spec, functions, count, length or own.rollout_length, seed)
