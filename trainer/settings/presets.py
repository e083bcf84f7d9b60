"""Presets: named sets of settings, one file each in ``presets/``."""

from pathlib import Path

from trainer.machine.launching import PROJECT
from trainer.settings import files
from user_error import UserError, closest

FOLDER = PROJECT / "presets"
HELP = "help"  # the name that lists them


def names() -> list[str]:
    """All presets."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def path_of(name: str) -> Path:
    """The file of a preset."""
    if name not in names():
        raise UserError(
            f"--preset={name} is not known. {closest(name, names())} "
            f"--preset={HELP} lists them with a line each."
        )
    return FOLDER / f"{name}.yaml"


def listing() -> str:
    """Each preset with its description, a line each."""
    width = max(map(len, names()), default=0)
    return "\n".join(f"{name:<{width}}  {_described(name)}" for name in names())


def _described(name: str) -> str:
    """What a preset is for, or what is wrong with its file."""
    try:
        return description(name)
    except UserError as error:  # of one's own: it is not in the way of others
        return str(error)


def description(name: str) -> str:
    """The line in which a preset says what it is for."""
    return str(files.load(path_of(name), f"--preset={name}").get(files.DESCRIPTION, ""))
