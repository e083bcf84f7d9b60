"""Settings of the files that a run keeps."""

import dataclasses

from flags import setting


@dataclasses.dataclass(frozen=True)
class StorageSettings:
    """Where a run keeps its files, and how often it saves."""

    logdir: str = setting(
        "",
        "What to do",
        "folder of the run: checkpoints, metrics, pictures. The same command with the same "
        "folder resumes. Default: logs/LEVEL, or of a --checkpoint its run's; logs/trained/NAME if "
        "it is of none",
    )
    initial_weights: str = setting(
        "",
        "What to do",
        "start from another run's agent: its folder, a checkpoint's or bundle's file, "
        "https://...#sha256=..., or zoo:NAME. The count of frames and the optimizer start afresh; "
        "a resume of this run does not need it",
    )
    registry: str = setting(
        "",
        "What to do",
        "a YAML file, or its address, with source and sha256 of each zoo:NAME; default: those of "
        "this project. --checkpoint=zoo: lists them",
    )
    checkpoint_every_s: float = setting(
        60.0, "Watching", "seconds between two checkpoints", above=0
    )
    keep_checkpoints: int = setting(
        3, "Watching", "newest checkpoints to keep, besides the best", least=1
    )
