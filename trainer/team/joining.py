"""How a process takes its place among the learners that one ``mpirun`` has started."""

from typing import Any

from trainer.machine import cores
from trainer.machine.gpus import keep_one, pieces
from trainer.machine.launching import launched_together
from trainer.team.horovod_team import HorovodTeam, horovod
from trainer.team.team import ALONE, Team
from user_error import UserError

# What each learner may have for itself.
OWN = ("task", "learner_host", "actor_hosts", "logdir", "credentials")


def join(patience_s: float, gradient_compression: str = "none") -> tuple[Team, int]:
    """The learners started together; how many pieces of a batch each computes at once.

    Also takes this learner's GPU and cores. ``patience_s`` is how long it waits for the others
    before it reports that.
    """
    hvd = horovod() if launched_together() else None
    if hvd:
        keep_one(hvd.local_rank())
    at_once = pieces(cores.divide(hvd.local_size() if hvd else 1, side_by_side=2))
    if hvd is None:
        return ALONE, at_once
    return HorovodTeam(hvd, patience_s, gradient_compression), at_once


def common(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, by their names, that all learners of a team must share."""
    return {name: value for name, value in settings.items() if name not in OWN}


def check_common(first: dict[str, Any], mine: dict[str, Any], rank: int) -> None:
    """Refuses settings that differ from the first learner's."""
    for name, value in mine.items():
        if value != first[name]:
            raise UserError(
                f"--{name}={value} of learner {rank} differs from --{name}={first[name]} of "
                "learner 0: learners that train together need the same settings."
            )
