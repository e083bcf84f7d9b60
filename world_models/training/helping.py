"""Several learners under ``mpirun``: all of them train the model, the first does all else.

The others need nothing but the program: they get the real play and the model from the first.
"""

import io
import math
import os
from collections.abc import Sequence

import numpy as np

from environments import EnvironmentSpec
from trainer.programs.stopping import StopSignal
from trainer.settings.config import Settings
from trainer.storage import npz
from trainer.storage.played import Part, Stored
from trainer.team import joining
from trainer.team.team import Team
from user_error import UserError
from world_models.training.experience import Experience
from world_models.training.model_updates import updates
from world_models.training.world_model import WorldModel


def join(settings: Settings) -> tuple[Team, int]:
    """The learners started together; how many pieces of a batch each computes at once."""
    # They wait for the first one for as long as it plays: rarely asked, and without a warning.
    os.environ.setdefault("HOROVOD_CYCLE_TIME", "2")
    os.environ.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")
    team, pieces = joining.join(patience_s=math.inf)
    batch = settings.algorithm.model_batch
    if batch % team.size:
        raise UserError(
            f"--model_batch={batch} cannot be shared evenly by {team.size} learners. Give a "
            f"multiple of {team.size}."
        )
    mine = joining.common(settings.flat())
    joining.check_common(team.broadcast_value(mine), mine, team.rank)
    return team, pieces


class Helpers:
    """The other learners, as the first one sees them."""

    def __init__(self, team: Team):
        self.team = team
        self._sent = 0  # parts of real play

    def begin(self, model: WorldModel, stored: Sequence[Stored], total: int) -> None:
        """Brings them to where the model is, to train it with this learner."""
        if self.team.size == 1:
            return
        new = [one.part for one in stored[self._sent :]]
        self._sent = len(stored)
        counts = {"updates": model.updates, "before": model.before, "total": total}
        self.team.broadcast_value(counts | {"parts": len(new)})
        for part in new:
            self.team.gather(_packed(part))
        self.team.broadcast(model.variables)

    def end(self) -> None:
        """Lets them end."""
        if self.team.size > 1:
            self.team.broadcast_value(None)


def help_first(settings: Settings, spec: EnvironmentSpec, team: Team, pieces: int) -> None:
    """Trains the model with the first learner, whenever it does, until it ends."""
    model, parts = WorldModel(settings, spec, pieces), list[Part]()
    with StopSignal() as stop:
        while phase := team.broadcast_value(None):
            nothing = np.zeros(0, np.uint8)
            parts += [_unpacked(team.gather(nothing)) for _ in range(phase["parts"])]
            team.broadcast(model.variables)
            model.updates, model.before = phase["updates"], phase["before"]
            real = Experience(parts, settings.algorithm.model_frames)
            for _ in updates(settings, model, real, phase["total"], stop.is_set, team):
                pass


def _packed(part: Part) -> np.ndarray:
    file = io.BytesIO()
    np.savez(file, **part._asdict())
    return np.frombuffer(file.getbuffer(), np.uint8)


def _unpacked(packed: np.ndarray) -> Part:
    return Part(**npz.arrays_in(io.BytesIO(packed.tobytes())))
