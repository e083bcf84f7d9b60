"""Copies the credentials of a run to its hosts, each file only where it is needed.

Those are the files of ``--transport=secure``, and the password of remotes.
"""

import base64
from collections.abc import Iterator
from pathlib import Path

import credentials
from cluster.backends.ssh.hosts import Hosts
from cluster.model import Place, Plan
from cluster.ssh.failures import HostFailed


def entrust(plan: Plan, hosts: Hosts, run_folder: Path, patience_s: float, secure: bool) -> bool:
    """Makes the files if the run has none, and copies them over SSH; False if a host failed.

    ``run_folder`` is the run's folder here.
    """
    folder = run_folder / credentials.FOLDER
    contents: dict[Path, bytes] = {}
    files: dict[Place, dict[str, str]] = {}
    for place, path in [
        *(_of_transport(plan, folder) if secure else ()),
        *_of_desktops(plan, folder),
    ]:
        if not place.host.is_local:
            content = contents.setdefault(path, path.read_bytes())
            name = f"{credentials.FOLDER}/{path.name}"
            files.setdefault(place, {})[name] = base64.b64encode(content).decode()
    requests = {
        place: {"do": "keep", "folder": place.folder, "logdir": plan.logdir, "files": wanted}
        for place, wanted in files.items()
    }
    replies = hosts.ask_all(requests, patience_s)
    failed = {place: reply for place, reply in replies.items() if isinstance(reply, HostFailed)}
    if failed:
        print("The credentials could not be copied to all hosts:")
    for place, reply in failed.items():
        print(f"  {place.host}: {reply}")
    return not failed


def _of_transport(plan: Plan, folder: Path) -> Iterator[tuple[Place, Path]]:
    credentials.make(folder)
    for name in (credentials.LEARNER, credentials.ACTOR):
        credentials.read(str(folder / name), of_learner=name == credentials.LEARNER)
    yield from ((one.place, folder / credentials.LEARNER) for one in plan.learners)
    yield from ((one.place, folder / credentials.ACTOR) for one in plan.actors)


def _of_desktops(plan: Plan, folder: Path) -> Iterator[tuple[Place, Path]]:
    if not plan.remotes:
        return
    # Late: a machine that only reaches others needs no environments, unless they are desktops.
    from environments.realtime import password

    path = folder / credentials.DESKTOPS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        password.make(path)
    password.read(str(path), "the password of the run's remotes")
    yield from ((member.place, path) for pair in plan.remotes for member in pair)
