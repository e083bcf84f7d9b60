"""``--checkpoint_replay``: the replay store goes on where it was, or says that it does not."""

from typing import Any

from algorithms.feeding import Replayed
from trainer.learning.replayed import ReplayedBatches
from trainer.programs.run import Run
from user_error import UserError

FOLDER = "replay"  # of a run's folder


def connect(run: Run, feeding: Any, batches: Any, updates: int) -> None:
    """Restores the store of a run that resumes, and saves it with every checkpoint from now on."""
    if not isinstance(feeding, Replayed) or not isinstance(batches, ReplayedBatches):
        return
    folder = run.folder / FOLDER
    refills = f"{feeding.warm_up:,} agent steps are played before the next update."
    if feeding.kept:
        run.saved_too.append(lambda: batches.save(folder))
    if not updates:
        return
    if not feeding.kept:
        run.reporter.say(f"The replay was not kept (--checkpoint_replay), so {refills}")
        return
    try:
        batches.load(folder)
    except UserError as error:
        run.reporter.say(f"warning: {error} So {refills}")
