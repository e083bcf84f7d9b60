"""Where a run keeps what, and one line for a disk that cannot be written."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trainer.settings.config import Settings
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

    def link_checkpoints(self) -> None:
        """Lets ``--logdir`` of this run stand for its policy where one is tested or exported."""
        with contextlib.suppress(OSError):  # it exists, or the file system has no links
            (self.run / "checkpoints").symlink_to("policy/checkpoints")


def of(settings: Settings) -> Folders:
    """The folders of these settings' run."""
    return Folders(Path(settings.run_folder))


@contextlib.contextmanager
def writing(what: Path) -> Iterator[None]:
    """Turns a failure to write into one line; what was written before is still there."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{what} could not be written ({error.strerror or error}). Nothing else is lost: make "
            "room and run the same command again, and it goes on where it was."
        ) from None
