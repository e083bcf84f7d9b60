"""Where the project runs: in a checkout, or where pip has installed it."""

import os
import sys
from pathlib import Path


def is_checkout() -> bool:
    """Whether the project runs in place, with all that hosts need to set themselves up."""
    return (Path(__file__).resolve().parent / "bin" / "setup").exists()


def setup_command(extra: str, flag: str = "") -> str:
    """What a user here runs to install an extra of pyproject.toml, for an error message.

    ``flag`` is that of bin/setup if it is not ``--extra``.
    """
    if is_checkout():
        return f"bin/setup {flag or f'--extra={extra}'}"
    return f"pip install '.[{extra}]' in the project's folder"


def typed(path: str | Path) -> str:
    """A path as a user can type it here: relative to the current folder if it lies below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def import_from_here() -> None:
    """Lets the user's own modules be in the current folder, wherever the script is."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
