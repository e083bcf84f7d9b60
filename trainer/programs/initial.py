"""``--initial_weights``: a new run starts from the agent of another one."""

from pathlib import Path

import numpy as np

from algorithms.algorithm import Algorithm
from algorithms.registry import settings_of
from trainer import build
from trainer.learning.learner import Learner
from trainer.settings import config
from trainer.storage import checkpoints, fetching
from trainer.storage.checkpoints import Checkpoint, Damaged, Store, read
from user_error import UserError


def find(source: str, registry: str, learner: Learner) -> tuple[Path, Checkpoint]:
    """The checkpoint of a run's folder or file; an error if it does not fit the learner.

    ``registry`` has the bundles that are given by name.
    """
    path = fetching.located(source, "--initial_weights", registry) or Path(source)
    try:
        if path.is_dir():
            found = Store(checkpoints.folder_of(path), 1).newest(warn=lambda text: None)
        else:
            found = (path, read(path)) if path.is_file() else None
    except Damaged as error:
        raise UserError(f"--initial_weights={source}: {error}.") from None
    except OSError as error:  # it lies in a folder of somebody else
        raise UserError(
            f"--initial_weights={source}: {error.filename} cannot be read ({error.strerror})."
        ) from None
    if found is None:
        raise UserError(
            f"--initial_weights={source}: expected a run's folder with checkpoints, a "
            "checkpoint's or bundle's file, https://...#sha256=..., or zoo:NAME."
        )
    path, checkpoint = found
    _check_is_agent(source, checkpoint)
    given = [array.shape for array in checkpoint.weights.values()]
    if given != [tuple(variable.shape) for variable in learner.weights]:
        trained = checkpoint.settings
        raise UserError(
            f"--initial_weights={source}: its weights do not fit this agent. They were trained "
            f"with --agent_name={trained.get('agent_name')} --level_name="
            f"{trained.get('level_name')}; agent, sizes of its layers, observations and actions "
            "must be the same."
        )
    _check_heads(source, checkpoint, learner)
    return path, checkpoint


def _check_is_agent(source: str, checkpoint: Checkpoint) -> None:
    """Refuses a world model; what names code to import is not looked at."""
    algorithm = checkpoint.settings["algorithm"]
    if ":" not in algorithm and settings_of(algorithm).program:
        raise UserError(
            f"--initial_weights={source} is a world model and no agent; --model_bundle of "
            f"--algorithm={algorithm} takes it."
        )


def _check_heads(source: str, checkpoint: Checkpoint, learner: Learner) -> None:
    """Refuses values of actions for a policy, or the other way round: their shapes are alike."""
    theirs = _learned_by(checkpoint, learner)
    if theirs and theirs.heads.action_values != learner.algorithm.heads.action_values:
        what = "values of actions" if theirs.heads.action_values else "a policy"
        raise UserError(
            f"--initial_weights={source}: its outputs are {what}, learned by "
            f"--algorithm={checkpoint.settings['algorithm']}, which this algorithm cannot go on "
            "from. Choose an --algorithm that learns the same."
        )


def _learned_by(checkpoint: Checkpoint, learner: Learner) -> Algorithm | None:
    """The algorithm of a checkpoint.

    If the file names code to import: the learner's own where that keeps the same, otherwise None.
    """
    if ":" in checkpoint.settings["algorithm"]:
        keeps_the_same = checkpoint.algorithm.keys() == learner.algorithm.kept.keys()
        return learner.algorithm if keeps_the_same else None
    return build.algorithm(config.from_record(checkpoint.settings))


def take(checkpoint: Checkpoint, learner: Learner) -> None:
    """Copies the weights, and what the algorithm keeps if this learner keeps the same.

    Values stay what they were, in whatever units the two algorithms learn them.
    """
    learner.restore({"weights": checkpoint.weights}, updates=0)
    algorithm, kept = learner.algorithm, checkpoint.algorithm
    algorithm.take_over(kept)
    now = algorithm.scale_of_values({name: one.numpy() for name, one in algorithm.kept.items()})
    theirs = _learned_by(checkpoint, learner)
    before = theirs.scale_of_values(kept) if theirs else now
    if not all(map(np.array_equal, before, now)):
        learner.agent.baseline_head.change_units(*before, *now)
