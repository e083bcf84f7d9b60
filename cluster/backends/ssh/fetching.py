"""Copies a run's results from the host of its first learner to this machine."""

import base64
import io
import shlex
import tarfile
from pathlib import Path

from cluster.record import Record
from cluster.ssh.failures import HostFailed
from cluster.ssh.ssh import Connections

COPIES_WITHIN_S = 1800.0
# Credentials stay where they are; records and locks are those of another machine.
LEFT = "--exclude=./credentials --exclude=./cluster --exclude='.*.tmp' --exclude=./.lock"
PACK = f'cd && cd "$0" && cd "$1" && tar czf - {LEFT} . | base64'


def fetch(record: Record, connections: Connections, folder: str) -> int:
    """Unpacks the results into the folder; files there of the same names are replaced."""
    place = record.listeners[0].place
    if place.host.is_local:
        print(f"The first learner runs here: its results are in {folder}.")
        return 0
    command = f"exec sh -c {shlex.join([PACK, place.folder, record.logdir])}"
    try:
        code, output, errors = connections.run(place.host, command, "", COPIES_WITHIN_S)
    except HostFailed as error:
        print(f"{place.host}: {error}")
        return 1
    if code or not output:
        last = "".join(errors.strip().splitlines()[-1:]) or "no output"
        print(f"{place.host}: copying failed with exit code {code}: {last}")
        return 1
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(output))) as archive:
        Path(folder).mkdir(parents=True, exist_ok=True)
        files = [one for one in archive if one.isfile() and _is_below(one.name)]
        archive.extractall(folder, files)
    print(f"Copied {len(files)} files from {place.host} to {folder}.")
    return 0


def _is_below(name: str) -> bool:
    """Whether a name leads nowhere else, whatever the host has sent."""
    return not name.startswith("/") and ".." not in Path(name).parts
