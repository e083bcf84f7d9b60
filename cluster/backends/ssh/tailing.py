"""Reads the logs of a run on its hosts."""

from collections.abc import Mapping

from cluster.backends.backend import Tails
from cluster.backends.ssh.hosts import Hosts, places, request
from cluster.record import Record
from cluster.ssh.failures import HostFailed


def tail(record: Record, hosts: Hosts, offsets: Mapping[str, int]) -> Tails:
    """What the logs hold beyond the offsets."""
    requests = {}
    for where, parts in places(record).items():
        wanted = {part.name: offsets[part.name] for part in parts if part.name in offsets}
        if wanted:
            # Where nobody can tell what is alive, anything may write more.
            unknown = where.host.is_local and record.is_elsewhere
            alive = list(wanted) if unknown else None
            requests[where] = request(record, "tail", where, parts, offsets=wanted, alive=alive)
    tails = Tails({}, set(), {})
    for where, reply in hosts.ask_all(requests).items():
        if isinstance(reply, HostFailed):
            tails.silent[str(where.host)] = str(reply)
            continue
        tails.alive.update(reply["alive"])
        for name, log in reply["logs"].items():
            tails.texts[name] = log["text"], log["offset"]
    return tails
