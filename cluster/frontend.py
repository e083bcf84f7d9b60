"""From a command line to an action on the cluster."""

import getpass
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster import hosts_csv, options
from cluster.columns import host_of
from cluster.hosts_csv import Row
from cluster.model import Here
from cluster.options import Options
from cluster.plan import host_of_row, make_plan
from impala.config import Settings

if TYPE_CHECKING:
    from cluster.ssh import Connections

PROJECT = Path(__file__).resolve().parent.parent


def run(arguments: Sequence[str]) -> int:
    """Does what the flags ask for; returns the exit code."""
    chosen, settings = options.parse(arguments)
    rows = hosts_csv.read(Path(chosen.workers_csv_path)) if chosen.workers_csv_path else []
    if chosen.action in ("status", "logs", "stop"):
        return _with_run(chosen, settings, rows)
    plan = make_plan(rows, settings, chosen, here())
    # Imported late, so that --help answers at once.
    from cluster import checking, entrusting, record, show, starting, stopping, syncing
    from cluster.hosts import Hosts

    if chosen.dry_run:
        show.show(plan)
        return 0
    way = connections(chosen, rows)
    if chosen.action == "sync":
        return syncing.sync(plan, way, PROJECT)
    hosts = Hosts(way)
    if chosen.action == "start":
        starting.refuse_second_run(plan, hosts)
    if chosen.action == "restart":
        before = record.must_read(settings.run_folder)
        if stopping.stop(before, chosen, hosts):
            return 1
    wrong = checking.check(plan, hosts, PROJECT, chosen.tmux_sess)
    if wrong:
        show.console().print(checking.table(wrong))
    if chosen.action == "check":
        if not wrong:
            print("Nothing is wrong.")
        return int(bool(wrong))
    if wrong and not chosen.allow_partial:
        print("Nothing was started. Mend that, or give --allow_partial.")
        return 1
    if settings.transport == "secure":
        entrusted = entrusting.entrust(plan, hosts)
        if not entrusted and not chosen.allow_partial:
            return 1
    return starting.start(plan, chosen, hosts, way.passwords, PROJECT)


def _with_run(chosen: Options, settings: Settings, rows: list[Row]) -> int:
    """What is done with a run that was started before; rows only tell passwords."""
    from cluster import logs, record, stopping, watching
    from cluster.hosts import Hosts

    run = record.must_read(settings.run_folder)
    hosts = Hosts(connections(chosen, rows))
    if chosen.action == "status":
        return watching.status(run, hosts, chosen.follow)
    if chosen.action == "logs":
        return logs.logs(run, hosts, chosen.name, chosen.follow)
    return stopping.stop(run, chosen, hosts)


def connections(chosen: Options, rows: list[Row]) -> "Connections":
    """The way to the hosts of rows; warns where others can read their passwords."""
    from cluster.passwords import Passwords, warn_if_readable
    from cluster.ssh import Connections

    if any(row.ssh_password for row in rows):
        warn_if_readable(Path(chosen.workers_csv_path))
    me = here()
    given = {host_of_row(row, me): row.ssh_password for row in rows if row.ssh_password}
    passwords = Passwords(given, chosen)
    return Connections(
        passwords, me.known_hosts, chosen.accept_new_host_keys, chosen.connect_timeout_s
    )


def here() -> Here:
    """This machine, as the plan must know it."""
    return Here(
        folder=str(Path.cwd()),
        python=sys.executable,
        script=str(PROJECT / "experiment.py"),
        username=getpass.getuser(),
        known_hosts=str(Path("~/.ssh/known_hosts").expanduser()),
        is_own_address=_is_own_address,
        ssh_agent=os.environ.get("SSH_AUTH_SOCK", ""),
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
