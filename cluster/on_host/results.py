"""A run's results on the host of its first learner: which files there are, and pieces of them."""

import base64
import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Any

# Credentials stay where they are; records are those of another machine.
LEFT = ("credentials", "cluster")
# Large, and only of use where the run goes on.
ONLY_TO_RESUME = ("replay",)
# Each of several agents has a folder like that of a run there.
AGENTS = "agents"
CHECKPOINT = re.compile(r"frames-(\d+)\.npz")
AT_ONCE = 1 << 20


def results(request: dict[str, Any]) -> dict[str, Any]:
    """The files that a frontend may copy, as (name, size, time of its last change)."""
    root = Path(request["records"]).parent
    files = sorted(_files(root))
    if request["which"] == "newest":
        checkpoints = [name for name, _, _ in files if CHECKPOINT.fullmatch(Path(name).name)]
        older = {name for name in checkpoints if name != _newest(checkpoints, name)}
        files = [one for one in files if one[0] not in older and not _is_only_to_resume(one[0])]
    return {"files": files}


def of_agent(agent: str) -> Path:
    """Where an agent's results are, below the run's folder; those of the only one, "", in it."""
    return Path(AGENTS, agent) if agent else Path()


def agent_of(name: str) -> str:
    """The agent, of several, whose result it is; "" if it is that of the run."""
    parts = Path(name).parts
    return parts[1] if parts[0] == AGENTS and len(parts) > 2 else ""


def piece(request: dict[str, Any]) -> dict[str, Any]:
    """Some bytes of a file; nothing if it is gone."""
    try:
        with open(_path(request), "rb") as file:
            file.seek(request["offset"])
            data = file.read(request["length"])
    except OSError:
        data = b""
    return {"data": base64.b64encode(data).decode()}


def digest(request: dict[str, Any]) -> dict[str, Any]:
    """What tells the first bytes of a file from any others; nothing if it is gone."""
    found = hashlib.sha256()
    left = request["size"]
    try:
        with open(_path(request), "rb") as file:
            while left and (data := file.read(min(left, AT_ONCE))):
                found.update(data)
                left -= len(data)
    except OSError:
        return {"digest": ""}
    return {"digest": "" if left else found.hexdigest()}


def _path(request: dict[str, Any]) -> Path:
    return Path(request["records"]).parent / request["name"]


def _files(root: Path) -> list[tuple[str, int, int]]:
    found = []
    for folder, folders, names in os.walk(root):
        if Path(folder) == root:
            folders[:] = [one for one in folders if one not in LEFT]
        for name in names:
            path = Path(folder) / name
            # Names with a dot in front are locks, and files that are being written.
            if name.startswith(".") or path.is_symlink() or not path.is_file():
                continue
            with contextlib.suppress(FileNotFoundError):  # removed just now
                state = path.stat()
                found.append((str(path.relative_to(root)), state.st_size, state.st_mtime_ns))
    return found


def _is_only_to_resume(name: str) -> bool:
    parts = Path(name).parts
    of_one = parts[2:] if parts[0] == AGENTS else parts
    return bool(of_one) and of_one[0] in ONLY_TO_RESUME


def _newest(names: list[str], name: str) -> str:
    """The last checkpoint in the folder of this one: their names are in the order of frames."""
    return max(one for one in names if Path(one).parent == Path(name).parent)
