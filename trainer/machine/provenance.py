"""What decides a figure besides its settings: commit, versions, machine."""

import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

from trainer.machine.launching import PROJECT
from trainer.machine.quota import usable_cores

PACKAGES = (
    *("tensorflow-cpu", "tensorflow", "dm-sonnet", "numpy", "gymnasium", "ale-py", "optuna"),
)


def commit() -> str:
    """The checkout's commit, with a + if files differ from it; "" where it is none."""
    try:
        git = ["git", "-C", str(PROJECT)]
        asked = [*git, "rev-parse", "--show-toplevel", "HEAD"]
        found = subprocess.run(asked, capture_output=True, text=True, check=True)
        folder, name = found.stdout.splitlines()
        if Path(folder).resolve() != PROJECT:
            return ""  # pip has installed the project, or it was copied, below somebody's checkout
        status = [*git, "status", "--porcelain", "--untracked-files=no"]
        changed = subprocess.run(status, capture_output=True, text=True, check=True)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return ""
    return name + ("+" if changed.stdout.strip() else "")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide what is learned."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def here() -> dict[str, Any]:
    """All of it, of this process."""
    return {"commit": commit(), "versions": versions(), "machine": machine()}


def machine() -> str:
    """The processor, and how many of its cores there are to use."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cores = usable_cores()
    many = "1 core" if cores == 1 else f"{cores} cores"
    return f"{names[0] if names else 'unknown processor'}, {many}"
