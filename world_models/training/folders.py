"""Where a run keeps what."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trainer.programs.resuming import recorded_algorithm
from trainer.settings.config import Settings
from trainer.storage.checkpoints import OF_POLICY
from trainer.storage.records import GrowingFile
from user_error import UserError


class Folders(NamedTuple):
    """The folders of a run of ``--algorithm=simple``."""

    run: Path

    @property
    def play(self) -> Path:
        """Real play, a file for each part."""
        return self.run / "play"

    @property
    def model(self) -> Path:
        """Checkpoints, figures and pictures of the model."""
        return self.run / "world_model"

    @property
    def policy(self) -> Path:
        """The training of the policy in the model: a run like any other."""
        return self.run / "policy"

    @property
    def checkpoints(self) -> Path:
        """Leads to those of the policy."""
        return self.run / "checkpoints"

    def link_checkpoints(self) -> None:
        """Lets ``--logdir`` of this run stand for its policy where one is tested or exported."""
        with contextlib.suppress(OSError):  # it exists, or the file system has no links
            self.checkpoints.symlink_to(OF_POLICY)

    def check(self, algorithm: str) -> None:
        """Refuses the folder of a run of another algorithm than this one."""
        found = recorded_algorithm(self.run)
        if found not in ("", algorithm):
            raise UserError(
                f"--algorithm={algorithm} does not fit the run in {self.run}, which is one of "
                f"--algorithm={found}. Choose another --logdir."
            )
        own = (self.policy / "checkpoints").resolve()
        if os.path.lexists(self.checkpoints) and self.checkpoints.resolve() != own:
            raise UserError(
                f"--algorithm={algorithm} does not fit the run in {self.run}, whose "
                f"{self.checkpoints.name} are not those of its policy. Choose another --logdir."
            )


def of(settings: Settings) -> Folders:
    """The folders of these settings' run."""
    return Folders(Path(settings.run_folder))


class Complaints:
    """Says once that a file cannot be written, and once that it can again."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._failing: set[Path] = set()

    def about(self, *files: GrowingFile) -> None:
        """Looks at how the newest pieces of these files fared."""
        for file in files:
            if file.error and file.path not in self._failing:
                self._failing.add(file.path)
                reason = file.error.strerror or file.error
                self._say(f"warning: {file.path} cannot be written ({reason}); the run goes on.")
            elif not file.error and file.path in self._failing:
                self._failing.remove(file.path)
                self._say(f"{file.path} is written again; figures in between are missing.")
