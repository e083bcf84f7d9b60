"""Removes actors from a run: ends those on some hosts, and forgets them."""

import dataclasses
from collections.abc import Sequence

from cluster import record as records
from cluster.actions.next_steps import print_left
from cluster.backends.ssh.hosts import Hosts, places, request
from cluster.inventory import columns
from cluster.options import Options
from cluster.record import Part, Record
from cluster.ssh.failures import HostFailed
from cluster.this_machine import here
from user_error import UserError

LISTED = 8


def remove(record: Record, options: Options, hosts: Hosts) -> int:
    """Ends the actors on the chosen hosts; names those that may be left, and then returns 1."""
    chosen = _chosen(record, options.hosts)
    if options.dry_run:
        for part in chosen:
            print(f"{part.name} on {part.host}")
        return 0
    return end(record, chosen, options, hosts)


def end(record: Record, chosen: Sequence[Part], options: Options, hosts: Hosts) -> int:
    """Ends these processes and takes them out of the record, except those that may be left."""
    only = dataclasses.replace(record, parts=tuple(chosen), listeners=())
    asked = places(only)
    replies = hosts.ask_all(
        {
            place: request(only, "end", place, parts, grace_s=options.stop_grace_s)
            for place, parts in asked.items()
        }
    )
    left: dict[str, str] = {}
    said = []
    for place, reply in replies.items():
        what = str(reply) if isinstance(reply, HostFailed) else ""
        if not isinstance(reply, HostFailed) and reply["left"]:
            what = f"processes {reply['left']} could not be ended"
        if what:
            said.append(f"  {place.host}: {what}")
            left.update((part.name, what) for part in asked[place])
    gone = [part for part in chosen if part.name not in left]
    names = {part.name for part in gone}
    kept = tuple(part for part in record.parts if part.name not in names)
    records.write(dataclasses.replace(record, parts=kept), {})
    if gone:
        print(f"Removed {listed(gone)}.")
    if left:
        print_left(["Not removed:", *said], options.action)
    return int(bool(left))


def listed(parts: Sequence[Part]) -> str:
    """How many they are, and the names of some."""
    names = ", ".join(part.name for part in parts[:LISTED])
    more = ", …" if len(parts) > LISTED else ""
    return f"{records.counted({'actor': len(parts)})}: {names}{more}" if parts else "nothing"


def _chosen(record: Record, given: str) -> list[Part]:
    """The actors on these hosts; a ``UserError`` if one of them has none."""
    actors = [part for part in record.parts if part.job == "actor"]
    words = [_as_kept(word.strip()) for word in given.split(",") if word.strip()]
    if not words:
        raise UserError(f"--hosts={given}: names no host whose actors are to be stopped.")
    for word in words:
        if not any(_is_on(part, word) for part in actors):
            known = list(dict.fromkeys(part.host.ip for part in actors))
            raise UserError(
                f"--hosts={word}: the run has no actor there. Its actors are on "
                f"{', '.join(known[:LISTED]) or 'no host'}{' …' if len(known) > LISTED else ''}."
            )
    return [part for part in actors if any(_is_on(part, word) for word in words)]


def _as_kept(word: str) -> str:
    """An address as the CSV's reader writes it, whatever its form; any other word as it is."""
    try:
        return columns.address(word)
    except columns.BadValue:
        return word


def _is_on(part: Part, word: str) -> bool:
    is_here = part.host.is_local and here().is_own_address(word)
    return is_here or word in (part.host.ip, str(part.host))
