"""Copies the credentials of a secure run to its hosts, each file only where it is needed."""

from pathlib import Path
from typing import Any

import credentials
from cluster.backends.ssh.hosts import Hosts
from cluster.model import Place, Plan
from cluster.ssh.failures import HostFailed


def entrust(plan: Plan, hosts: Hosts, patience_s: float) -> bool:
    """Makes the files if the run has none, and copies them over SSH; False if a host failed."""
    folder = Path(plan.logdir) / credentials.FOLDER
    credentials.make(folder)
    replies = hosts.ask_all(_requests(plan, folder), patience_s)
    failed = {place: reply for place, reply in replies.items() if isinstance(reply, HostFailed)}
    if failed:
        print("The credentials could not be copied to all hosts:")
    for place, reply in failed.items():
        print(f"  {place.host}: {reply}")
    return not failed


def _requests(plan: Plan, folder: Path) -> dict[Place, dict[str, Any]]:
    texts = {}
    for name in (credentials.LEARNER, credentials.ACTOR):
        path = folder / name
        credentials.read(str(path), of_learner=name == credentials.LEARNER)
        texts[name] = path.read_text()
    files: dict[Place, dict[str, str]] = {}
    for member in (*plan.learners, *plan.actors):
        if not member.host.is_local:
            name = credentials.LEARNER if member.row.job == "learner" else credentials.ACTOR
            files.setdefault(member.place, {})[f"{credentials.FOLDER}/{name}"] = texts[name]
    return {
        place: {"do": "keep", "folder": place.folder, "logdir": plan.logdir, "files": wanted}
        for place, wanted in files.items()
    }
