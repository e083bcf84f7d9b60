"""Trains the policy in the model, by the ordinary training of one machine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from algorithms import registry
from environments import EnvironmentSpec, VectorEnvironment
from environments.dream import DreamEnvironment, Dreamt, Model, Starts
from trainer import build
from trainer.programs import local, resuming
from trainer.programs.companions import Companion
from trainer.programs.stopping import StopSignal
from trainer.settings import sizes
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Checkpoint, Store
from user_error import UserError
from world_models.training.experience import Experience, KeptStarts
from world_models.training.policy_settings import policy_settings
from world_models.training.world_model import WorldModel


def train_policy(
    settings: Settings,
    spec: EnvironmentSpec,
    model: WorldModel,
    real: Experience | KeptStarts,
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


def check_policy(settings: Settings, spec: EnvironmentSpec) -> None:
    """Refuses to go on with another policy than the one that the run has."""
    found, made = _newest(settings), policy_settings(settings)
    if found is None:
        return
    before, now = registry.name_of(found.settings["algorithm"]), made.program.algorithm
    if before != now:
        raise UserError(
            f"--base_algorithm={now} does not fit the policy in {made.run_folder}, which was "
            f"trained with --base_algorithm={before}. Use that, or choose another --logdir."
        )
    resuming.check_same(found, build.complete(made, spec), spec, Path(made.run_folder))


def policy_steps(settings: Settings, spec: EnvironmentSpec) -> int:
    """Agent steps in the model that the newest policy of the run was trained for."""
    found = _newest(settings)
    return found.counters["environment_frames"] // spec.frames_per_step if found else 0


def _newest(settings: Settings) -> Checkpoint | None:
    store = Store(Path(policy_settings(settings).run_folder) / "checkpoints", 1)
    found = store.newest(lambda text: None)
    return found[1] if found else None


def dreams(
    spec: EnvironmentSpec,
    model: WorldModel,
    real: Experience | KeptStarts,
    seed: int,
    count: int,
    length: int = 0,
    true_starts: float | None = None,
) -> DreamEnvironment:
    """``count`` dreams of this model that start from this real play.

    ``length`` and ``true_starts`` are those of trainings unless given.
    """
    own, sees = model.settings.algorithm, model.sizes.frames * model.sizes.channels

    share = own.true_starts if true_starts is None else true_starts

    def starts(number: int, random: np.random.Generator) -> Starts:
        return real.starts(number, share, random, spec.frame_stack)

    def predict(stacks: np.ndarray, actions: np.ndarray, state: Any) -> Dreamt:
        return model.predict(stacks[..., -sees:], actions, state)

    functions = Model(predict, model.initial_state, starts)
    return DreamEnvironment(spec, functions, count, length or own.rollout_length, seed)
