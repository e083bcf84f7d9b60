"""The settings that say what a process does."""

import dataclasses

from algorithms import registry
from flags import setting

MODES = ("train", "test", "export")
JOBS = ("local", "learner", "actor")


@dataclasses.dataclass(frozen=True)
class ProgramSettings:
    """What a process is to do, and as which of many."""

    mode: str = setting(
        "train",
        "What to do",
        "train an agent, test a trained one, or export it as a TensorFlow SavedModel",
        choices=MODES,
    )
    job_name: str = setting(
        "local",
        "What to do",
        "local: actors and learner in this one process; learner or actor: one of many processes",
        choices=JOBS,
    )
    seed: int = setting(
        1, "What to do", "seed of environments, weights and actions", least=0, most=2**31 - 1
    )
    task: int = setting(
        0,
        "Cluster",
        "number of this actor, unique in a run, also among actors of other learners; its seed and "
        "which level it plays depend on it",
        least=0,
        most=10**6,
    )
    agent: str = setting(
        "",
        "Cluster",
        "--job_name=learner: which of --agents this learner trains; --mode=test --opponent: which "
        "of them plays against the opponent",
    )
    algorithm: str = setting(
        registry.DEFAULT,
        "Learning",
        f"how to learn: {', '.join(registry.KNOWN)}, or package.module:Settings for one of your "
        "own; --help lists the settings of the one that is given beside it",
    )
