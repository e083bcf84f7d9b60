"""Copies the project to the hosts, and installs there what its processes need."""

import base64
import io
import shlex
import tarfile
from pathlib import Path
from typing import Any

from rich.progress import Progress

from cluster import show
from cluster.hosts import at_once
from cluster.model import Place, Plan
from cluster.on_host.checks import CODE
from cluster.plan import REMOTE_PYTHON
from cluster.ssh.ssh import Connections, HostFailed

COPIES_WITHIN_S = 300.0
SETS_UP_WITHIN_S = 3600.0
# Only what processes need: the folder may also hold a CSV with passwords, or logs of runs.
WHAT = (*CODE, "bin", "requirements", "pyproject.toml")
FOLDERS = " ".join(name for name in CODE if name.isidentifier())
# Folders of code are replaced, so that files deleted here are deleted there; but only in a folder
# that holds the project. One at a time, as several hosts may share a home.
UNPACK = 'cd && mkdir -p "$0" && cd "$0" && { exec 9>.sync.lock; flock 9 2>/dev/null || true; }'
UNPACK += f" && if [ -e experiment.py ]; then rm -rf {FOLDERS}; fi && base64 -d | tar xzf -"


def sync(plan: Plan, connections: Connections, project: Path) -> int:
    """Copies the project to all other hosts; returns 1 if that failed for some."""
    members = (*plan.learners, *plan.actors)
    targets = list(dict.fromkeys(one.place for one in members if not one.host.is_local))
    if not targets:
        print("All processes run here, in the project's own folder: there is nothing to copy.")
        return 0
    learning = {one.place for one in plan.learners if len(plan.learners) > 1}
    packed = base64.b64encode(pack(project)).decode()
    shown = show.console()
    with Progress(console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task("copying and setting up", total=len(targets))

        def one(place: Place) -> dict[str, Any]:
            try:
                return _put(place, place in learning, connections, packed)
            finally:
                progress.advance(task)

        replies = at_once(one, targets)
    for place, reply in replies.items():
        failed = isinstance(reply, HostFailed)
        print(f"{place.host}: {reply if failed else 'has this version in ' + place.folder}")
    return int(any(isinstance(reply, HostFailed) for reply in replies.values()))


def pack(project: Path) -> bytes:
    """The project's code and its setup as a compressed archive."""

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        # Else, unpacked by root, it would belong to the user with the id of its owner here.
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return None if "__pycache__" in Path(entry.name).parts else entry

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(path for name in WHAT for path in project.glob(name)):
            archive.add(path, path.name, filter=kept)
    return buffer.getvalue()


def _put(place: Place, learns: bool, connections: Connections, packed: str) -> dict[str, Any]:
    command = f"exec sh -c {shlex.join([UNPACK, place.folder])}"
    _must(connections.run(place.host, command, packed, COPIES_WITHIN_S), "copying failed")
    if place.python == REMOTE_PYTHON:  # any other is the user's own setup
        kind = "--learner" if learns else "--actor"
        command = f"exec sh -c 'cd && cd \"$0\" && exec bin/setup {kind}' "
        done = connections.run(
            place.host, command + shlex.quote(place.folder), "", SETS_UP_WITHIN_S
        )
        _must(done, f"bin/setup {kind} failed")
    return {}


def _must(done: tuple[int, str, str], what: str) -> None:
    code, output, errors = done
    if code:
        last = " / ".join((output + errors).strip().splitlines()[-3:])
        raise HostFailed(f"{what} with exit code {code}: {last[:400]}")
