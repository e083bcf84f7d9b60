"""Copies the project to the hosts, and installs there what its processes need."""

import base64
import io
import shlex
import tarfile
from pathlib import Path
from typing import Any

from rich.progress import Progress

from cluster import show
from cluster.backends.ssh.hosts import at_once
from cluster.model import Place, Plan
from cluster.on_host.checks import CODE, is_kept
from cluster.on_host.states import IN_USE
from cluster.plan import REMOTE_PYTHON
from cluster.ssh.failures import HostFailed
from cluster.ssh.ssh import Connections
from trainer.machine.launching import PROJECT

COPIES_WITHIN_S = 300.0
SETS_UP_WITHIN_S = 3600.0
# Only what processes need: the folder may also hold a CSV with passwords, or logs of runs.
WHAT = (*CODE, "bin", "requirements", "pyproject.toml")
FOLDERS = " ".join(name for name in CODE if name.isidentifier())
# Replaces the code in a folder that is new, empty or marked as made by sync. Unpacked beside and
# renamed, so that a connection that breaks leaves the old version; what else is in there, such as
# .venv and logs, stays. One at a time, as several hosts may share a home.
UNPACK = f"""
unset CDPATH
cd && mkdir -p "$0" && cd "$0" || exit
if [ "$(stat -c '%i %Z' experiment.py 2>/dev/null)" = "$1" ]; then
  echo "it is the folder that it is copied from" >&2
  exit 1
fi
# Looked at in this order: another sync of this folder makes the mark before anything else.
if [ -n "$(ls -A | grep -v '^[.]sync')" ] && [ ! -e {IN_USE} ]; then
  echo "it has files that --action=sync did not put there: name another column remote_dir, or, if" \
    "it is a copy of the project made by an earlier version, run: touch $PWD/{IN_USE}" >&2
  exit 1
fi
if command -v flock >/dev/null; then
  exec 8>>{IN_USE} 9>.sync.lock
  # Before 9: a sync that waits for this one must not find the folder in use.
  trap 'exec 8>&-' EXIT
  flock 9
  flock -n -x 8 || {{
    echo "a run is running in it: end that with --action=stop first" >&2
    exit 1
  }}
fi
rm -rf .sync-new .sync-old && mkdir .sync-new .sync-old && touch {IN_USE} || exit
base64 -d | tar xzf - -C .sync-new || exit
for one in {FOLDERS} *.py; do
  if [ -e "$one" ]; then mv "$one" .sync-old/ || exit; fi
done
for one in .sync-new/*; do
  if [ -d "${{one#.sync-new/}}" ]; then mv "${{one#.sync-new/}}" .sync-old/ || exit; fi
  mv "$one" . || exit
done
rm -rf .sync-new .sync-old
"""
# Reads it from its input, before the archive: csh as a login shell takes no word of several lines.
UNPACKS = 'read -r script && eval "$(echo "$script" | base64 -d)"'


def sync(plan: Plan, connections: Connections, project: Path) -> int:
    """Copies the project to all other hosts; returns 1 if that failed for some."""
    targets = list(dict.fromkeys(one.place for one in plan.members if not one.host.is_local))
    if not targets:
        print("All processes run here, in the project's own folder: there is nothing to copy.")
        return 0
    learning = {one.place for one in plan.ranks}
    serving = {one.remote.place for one in plan.remotes}
    only_serving = serving - {one.place for one in (*plan.learners, *plan.actors)}
    packed = base64.b64encode(pack(project)).decode()
    shown = show.console()
    with Progress(console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task("copying and setting up", total=len(targets))

        def one(place: Place) -> dict[str, Any]:
            try:
                kind = "--learner" if place in learning else "--actor"
                kind = "--remote" if place in only_serving else kind
                extra = " --extra=vnc" if place in serving - only_serving else ""
                return _put(place, kind + extra, connections, packed)
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
        path = project / entry.name
        return entry if is_kept(path, project) and "__pycache__" not in path.parts else None

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(path for name in WHAT for path in project.glob(name)):
            archive.add(path, path.name, filter=kept)
    return buffer.getvalue()


def _put(place: Place, kind: str, connections: Connections, packed: str) -> dict[str, Any]:
    own = (PROJECT / "experiment.py").stat()
    itself = f"{own.st_ino} {int(own.st_ctime)}"
    command = f"exec sh -c {shlex.join([UNPACKS, place.folder, itself])}"
    text = f"{base64.b64encode(UNPACK.encode()).decode()}\n{packed}"
    _must(connections.run(place.host, command, text, COPIES_WITHIN_S), "copying failed")
    if place.python == REMOTE_PYTHON:  # any other is the user's own setup
        command = f"exec sh -c 'unset CDPATH; cd && cd \"$0\" && exec bin/setup {kind}' "
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
