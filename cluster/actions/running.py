"""Refuses to start a run where one is running."""

import sys

from cluster import record as records
from cluster.backends import chosen as backends
from cluster.backends.backend import Backend
from cluster.options import Options
from trainer.settings.config import Settings
from user_error import UserError


def refuse_second_run(logdir: str, options: Options, settings: Settings, own: Backend) -> None:
    """A ``UserError`` if a run in the logdir is still running, whatever has started it."""
    before = records.read(logdir)
    if before is None:
        return
    records.refuse_elsewhere(before)
    with backends.of_run(before, options, settings, own) as backend:
        parts = backend.look(before).parts
    alive = [one.name for one in parts if one.is_alive]
    if alive:
        raise UserError(
            f"{logdir}: a run is already running there: {', '.join(alive[:4])}"
            f"{' …' if len(alive) > 4 else ''}. See it with --action=status, or end it with "
            "--action=stop."
        )
    unseen = {str(one.part.host): one.why_unseen for one in parts if one.is_unseen}
    for host, why in unseen.items():
        print(
            f"warning: {host} cannot be asked ({why}). If processes of the previous run are still "
            "running there, no --action=stop will end them once this run has started.",
            file=sys.stderr,
        )
