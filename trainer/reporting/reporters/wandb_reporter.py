"""Reports to Weights & Biases; without a login, to files in the run's folder for `wandb sync`.

WANDB_PROJECT names the project, else it is ``impala``. A resumed run continues the same one.
"""

import os
from pathlib import Path
from typing import Any, Literal

import wandb

from trainer.reporting.reporters import run_ids

RUN_ID = "wandb_run"  # the file in the run's folder
FRAMES = "environment_frames"  # the axis of every chart
# Else it takes the package `agents` for one of language models, and prints advice about those.
os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")


class WandbReporter:
    """One run of Weights & Biases, whose charts are over environment frames.

    They are no steps of its own: those may never go back, as frames do after a resume from an older
    checkpoint.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]):
        found = run_ids.read(folder, RUN_ID)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "impala"),
            name=folder.resolve().name,
            id=found or None,
            resume="allow" if found else None,
            dir=folder,
            config=settings,
            mode=_mode(),
            reinit="create_new",  # each of several agents that train in one process has its own
            # The terminal belongs to the trainer.
            settings=wandb.Settings(console="off", silent=True),
        )
        run_ids.write(folder, RUN_ID, self._run.id)
        self._run.define_metric(FRAMES)
        self._run.define_metric("*", step_metric=FRAMES)

    def report(self, figures: dict[str, Any]) -> None:
        """Logs every figure that is known."""
        known = {name: value for name, value in figures.items() if value is not None}
        self._run.log(known)

    def finish(self, summary: dict[str, Any]) -> None:
        """Uploads what is left, with the figures of the whole run."""
        self._run.summary.update({f"end/{name}": value for name, value in summary.items()})
        self._run.finish(exit_code=int("error" in summary))


def _mode() -> Literal["offline"] | None:
    """Offline where it would ask for a login, which nobody may be there to answer."""
    if os.environ.get("WANDB_MODE") or wandb.login(prompt=False, verify=False):
        return None
    return "offline"
