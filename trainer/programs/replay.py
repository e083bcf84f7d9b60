"""Replays of runs that resume: they go on where they were, or say that they do not."""

from typing import Any

from algorithms.feeding import FirstInFirstOut, Replayed
from trainer.learning.replayed import ReplayedBatches
from trainer.programs.run import Run
from user_error import UserError

FOLDER = "replay"  # of a run's folder


def connect(run: Run, feeding: Any, batches: Any, updates: int) -> None:
    """Restores the store of a run that resumes, and saves it with every checkpoint from now on."""
    if updates and isinstance(feeding, FirstInFirstOut) and feeding.replayed:
        run.reporter.say(
            "Recent unrolls are not kept in checkpoints, so the first batches replay none."
        )
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
    if run.has_changed_level:
        run.reporter.say(f"The replay that was kept is of another level, so {refills}")
        return
    try:
        batches.load(folder)
    except UserError as error:
        run.reporter.say(f"warning: {error} So {refills}")
