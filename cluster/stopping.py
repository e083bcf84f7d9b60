"""Stopping a run: what it started, on every host that can be reached."""

from cluster.hosts import Hosts, places, request
from cluster.options import Options
from cluster.record import Record
from cluster.ssh import HostFailed


def stop(record: Record, options: Options, hosts: Hosts) -> int:
    """Ends every process of the run; returns 1 if some may be left, which it names."""
    replies = hosts.ask_all(
        {
            where: request(record, "stop", where, parts, grace_s=options.stop_grace_s)
            for where, parts in places(record).items()
        }
    )
    asked = killed = 0
    left = []
    for place, reply in replies.items():
        if isinstance(reply, HostFailed):
            left.append(f"  {place.host}: {reply}")
            continue
        asked, killed = asked + reply["asked"], killed + reply["killed"]
        if reply["left"]:
            left.append(f"  {place.host}: processes {reply['left']} cannot be ended")
    if not asked and not killed and not left:
        print("Nothing of the run was left to stop.")
    elif asked or killed:
        print(f"Stopped {asked} processes" + (f"; {killed} had to be killed." if killed else "."))
    if left:
        print("Not stopped:")
        print("\n".join(left))
        print("The same command tries again.")
    return int(bool(left))
