"""What a replay store begins with: what it held before, or what somebody has played."""

from collections.abc import Callable
from pathlib import Path

from algorithms.feeding import FirstInFirstOut, Gradients, Replayed
from algorithms.trajectory import Unroll
from environments import EnvironmentSpec
from trainer import build
from trainer.learning.replayed import Feeder, ReplayedBatches
from trainer.learning.rollouts import Crew
from trainer.programs.run import Run
from trainer.replay import recorded
from trainer.replay.copy_on_disk import OtherReplay
from trainer.settings.config import Settings
from trainer.storage import npz, played
from user_error import UserError

FOLDER = "replay"  # of a run's folder


def filled(
    make: Callable[[Crew], Feeder],
    run: Run,
    settings: Settings,
    spec: EnvironmentSpec,
    updates: int,
    example: Unroll,
) -> Callable[[Crew], Feeder]:
    """``make``, whose batches hold at once what a run that resumes or has ``--replay_played`` has.

    So nothing that actors send can come before it.
    """

    def made(crew: Crew) -> Feeder:
        batches = make(crew)
        _fill(run, settings, spec, batches, updates, example)
        return batches

    return made


def _fill(
    run: Run,
    settings: Settings,
    spec: EnvironmentSpec,
    batches: Feeder,
    updates: int,
    example: Unroll,
) -> None:
    """Fills the store; it is saved with every checkpoint if ``--checkpoint_replay`` says so."""
    feeding = settings.algorithm.feeding
    if updates:
        _say_what_is_lost(run, settings)
    if not isinstance(feeding, Replayed) or not isinstance(batches, ReplayedBatches):
        return
    folder, level_name = run.folder / FOLDER, ",".join(settings.level.levels)
    if feeding.kept:
        run.saved_too.append(lambda: batches.save(folder, level_name))
    if run.resumes and feeding.kept and run.has_changed_level:
        run.reporter.say("The replay that was kept is of another level.")
    elif run.resumes and feeding.kept:
        try:
            left = batches.load(folder, has_learned=bool(updates), level_name=level_name)
            if updates and left:
                run.reporter.say(_to_be_played(left))
            return
        except (OtherReplay, npz.Unread):
            raise  # training would overwrite it
        except UserError as error:
            run.reporter.say(f"warning: {error}")
    elif updates:
        run.reporter.say("The replay was not kept (--checkpoint_replay).")
    steps = _recall(run, settings, spec, batches, example) if feeding.played else 0
    left = max(0, feeding.warm_up - steps)
    if updates or steps:
        run.reporter.say(_to_be_played(left))


def _to_be_played(steps: int) -> str:
    return f"{steps:,} agent steps are played before the next update."


def _say_what_is_lost(run: Run, settings: Settings) -> None:
    """Says what a resume lacks that no checkpoint has."""
    feeding = settings.algorithm.feeding
    if isinstance(feeding, FirstInFirstOut) and feeding.replayed:
        run.reporter.say(
            "Recent unrolls are not kept in checkpoints, so the first batches replay none."
        )
    has_moments = settings.learning.optimizer != "sgd"
    if isinstance(feeding, Gradients) and not feeding.shared_optimizer and has_moments:
        run.reporter.say(
            "Optimizers of actors are not kept in checkpoints (--shared_optimizer=false): those "
            "of actors that start now begin anew."
        )


def _recall(
    run: Run, settings: Settings, spec: EnvironmentSpec, batches: ReplayedBatches, example: Unroll
) -> int:
    """Puts ``--replay_played`` into the store; returns its steps."""
    folder = Path(settings.algorithm.feeding.played)
    stored = played.read_all(folder, settings.level.level_name)
    if not stored:
        raise UserError(
            f"--replay_played={folder}: there is no recorded play; expected a folder with "
            "part-000000.npz, which python -m world_models.play --record writes."
        )
    played.check_looks(stored, spec, played.looks_of(build.looks(settings)), folder)
    parts = [one.part for one in stored]
    steps = sum(batches.recall(block) for block in recorded.unrolls_of(parts, example))
    run.reporter.say(f"{steps:,} agent steps of {folder} are in the replay.")
    return steps
