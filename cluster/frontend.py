"""From a command line to an action on the cluster."""

import getpass
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from cluster import hosts_csv, options
from cluster.columns import host_of
from cluster.model import Here
from cluster.plan import make_plan

PROJECT = Path(__file__).resolve().parent.parent


def run(arguments: Sequence[str]) -> int:
    """Does what the flags ask for; returns the exit code."""
    chosen, settings = options.parse(arguments)
    # Imported late, so that --help answers at once.
    from cluster import record, show, starting, stopping, watching
    from cluster.hosts import Hosts

    if chosen.action == "start":
        rows = hosts_csv.read(Path(chosen.workers_csv_path))
        plan = make_plan(rows, settings, chosen, here())
        if chosen.dry_run:
            show.show(plan)
            return 0
        return starting.start(plan, chosen, Hosts(), PROJECT)
    run = record.must_read(settings.run_folder)
    if chosen.action == "status":
        return watching.status(run, Hosts(), chosen.follow)
    if chosen.action == "logs":
        return watching.logs(run, Hosts(), chosen.name, chosen.follow)
    return stopping.stop(run, chosen, Hosts())


def here() -> Here:
    """This machine, as the plan must know it."""
    return Here(
        folder=str(Path.cwd()),
        python=sys.executable,
        script=str(PROJECT / "experiment.py"),
        username=getpass.getuser(),
        known_hosts=str(Path("~/.ssh/known_hosts").expanduser()),
        is_own_address=_is_own_address,
    )


def _is_own_address(ip: str) -> bool:
    """Whether an address is one of this machine's: only then can a socket be bound to it."""
    if host_of(ip) == "localhost":
        return True
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # inet_pton refuses names, which bind would look up.
            socket.inet_pton(family, ip)
            probe.bind((ip, 0))
        except OSError:
            return False
    return True
