"""``--initial_weights``: a new run starts from the agent of another one."""

from pathlib import Path

from trainer.learning.learner import Learner
from trainer.storage import fetching
from trainer.storage.checkpoints import Checkpoint, Damaged, Store, read
from user_error import UserError


def find(source: str, registry: str, learner: Learner) -> tuple[Path, Checkpoint]:
    """The checkpoint of a run's folder or file; an error if it does not fit the learner.

    ``registry`` has the bundles that are given by name.
    """
    path = fetching.located(source, "--initial_weights", registry) or Path(source)
    try:
        if path.is_dir():
            found = Store(path / "checkpoints", 1).newest(warn=lambda text: None)
        else:
            found = (path, read(path)) if path.is_file() else None
    except Damaged as error:
        raise UserError(f"--initial_weights={source}: {error}.") from None
    if found is None:
        raise UserError(
            f"--initial_weights={source}: expected a run's folder with checkpoints, a "
            "checkpoint's or bundle's file, https://...#sha256=..., or zoo:NAME."
        )
    path, checkpoint = found
    given = [array.shape for array in checkpoint.weights.values()]
    if given != [tuple(variable.shape) for variable in learner.weights]:
        trained = checkpoint.settings
        raise UserError(
            f"--initial_weights={source}: its weights do not fit this agent. They were trained "
            f"with --agent_name={trained.get('agent_name')} --level_name="
            f"{trained.get('level_name')}; agent, sizes of its layers, observations and actions "
            "must be the same."
        )
    return path, checkpoint


def take(checkpoint: Checkpoint, learner: Learner) -> None:
    """Copies the weights, and what the algorithm keeps if this learner keeps the same."""
    learner.restore({"weights": checkpoint.weights}, updates=0)
    mine = learner.groups()["algorithm"]
    kept = checkpoint.algorithm
    if {n: a.shape for n, a in kept.items()} == {n: tuple(v.shape) for n, v in mine.items()}:
        learner.restore({"algorithm": {name: kept[name] for name in mine}}, updates=0)
