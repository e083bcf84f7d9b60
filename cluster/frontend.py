"""From a command line to an action on the cluster."""

import getpass
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster import options
from cluster.inventory import hosts_csv
from cluster.inventory.columns import host_of
from cluster.inventory.hosts_csv import Row
from cluster.model import Here, Host, Plan
from cluster.options import Options
from cluster.plan import host_of_row, make_plan, without_learners_on
from trainer.machine.launching import PROJECT, is_checkout
from trainer.settings.config import Settings
from user_error import UserError

if TYPE_CHECKING:
    from cluster.hosts import Hosts
    from cluster.record import Record
    from cluster.ssh.passwords import Passwords
    from cluster.ssh.ssh import Connections


def run(arguments: Sequence[str]) -> int:
    """Does what the flags ask for; returns the exit code."""
    chosen, settings = options.parse(arguments)
    rows = hosts_csv.read(Path(chosen.workers_csv_path)) if chosen.workers_csv_path else []
    if chosen.action in ("status", "logs", "stop"):
        return _with_run(chosen, settings, rows)
    _check_levels(settings)
    plan = make_plan(rows, settings, chosen, here())
    _check_project(plan)
    # Imported late, so that --help answers at once.
    from cluster import record, show
    from cluster.actions import syncing
    from cluster.hosts import Hosts

    if chosen.dry_run:
        show.show(plan)
        return 0
    way = connections(chosen, rows)
    if chosen.action == "sync":
        return syncing.sync(plan, way, PROJECT)
    hosts = Hosts(way)
    if chosen.action == "check":
        wrong, _ = _check_hosts(plan, chosen, hosts)
        if not wrong:
            print("No problems found.")
        return int(wrong)
    if chosen.action == "restart":
        record.must_read(settings.run_folder)
    with record.one_start(settings.run_folder):
        return _start(chosen, settings, rows, plan, hosts, way.passwords)


def _check_levels(settings: Settings) -> None:
    """A ``UserError`` if there is no such level, as far as this machine can tell."""
    try:
        from environments import names
    except ImportError:  # a machine that only reaches others needs no environments
        return
    for level in settings.level.levels:
        names.find(level)


def _check_project(plan: Plan) -> None:
    """A ``UserError`` if hosts need the project's folder, and there is none here."""
    others = [one.host for one in (*plan.learners, *plan.actors) if not one.host.is_local]
    if others and not is_checkout():
        raise UserError(
            f"{others[0]}: other hosts get the project from its folder, which pip does not "
            "install. Clone the project, and run its run_experiment_mm_raw.py instead."
        )


def _start(
    chosen: Options,
    settings: Settings,
    rows: list[Row],
    plan: Plan,
    hosts: "Hosts",
    passwords: "Passwords",
) -> int:
    from cluster import entrusting, record
    from cluster.actions import starting, stopping

    before = None
    if chosen.action == "start":
        starting.refuse_second_run(plan, hosts)
    else:
        before = record.must_read(settings.run_folder)
    wrong, silent = _check_hosts(plan, chosen, hosts, before)
    if wrong and not chosen.allow_partial:
        nothing = "Nothing was stopped or started." if before else "Nothing was started."
        print(f"{nothing} Fix this, or give --allow_partial.")
        return 1
    if before and stopping.stop(before, chosen, hosts) and not chosen.allow_partial:
        return 1
    usable = without_learners_on(silent, rows, here())
    if len(usable) < len(rows):
        print("Continuing without the learners on hosts that cannot be used.")
        plan = make_plan(usable, settings, chosen, here())
    if settings.remote.transport == "secure":
        entrusted = entrusting.entrust(plan, hosts)
        if not entrusted and not chosen.allow_partial:
            return 1
    return starting.start(plan, chosen, hosts, passwords, PROJECT)


def _check_hosts(
    plan: Plan, chosen: Options, hosts: "Hosts", before: "Record | None" = None
) -> tuple[bool, set[Host]]:
    """Checks all hosts and shows the problems; returns whether any, and the silent hosts."""
    from cluster import show
    from cluster.actions import checking

    wrong, silent = checking.check(plan, hosts, PROJECT, chosen.tmux_sess, before)
    if wrong:
        show.console().print(checking.table(wrong))
    return bool(wrong), silent


def _with_run(chosen: Options, settings: Settings, rows: list[Row]) -> int:
    """Runs an action on a run that was started earlier; the rows only supply passwords."""
    from cluster import record
    from cluster.actions import logs, stopping, watching
    from cluster.hosts import Hosts

    run = record.must_read(settings.run_folder)
    hosts = Hosts(connections(chosen, rows))
    if chosen.action == "status":
        return watching.status(run, hosts, chosen.follow)
    if chosen.action == "logs":
        return logs.logs(run, hosts, chosen.name, chosen.follow)
    return stopping.stop(run, chosen, hosts)


def connections(chosen: Options, rows: list[Row]) -> "Connections":
    """Connections to the hosts of the rows; warns where others can read their passwords."""
    from cluster.ssh.passwords import Passwords, warn_if_readable
    from cluster.ssh.ssh import Connections

    if any(row.ssh_password for row in rows):
        warn_if_readable(Path(chosen.workers_csv_path))
    me = here()
    given = {host_of_row(row, me): row.ssh_password for row in rows if row.ssh_password}
    passwords = Passwords(given, chosen)
    return Connections(
        passwords, me.known_hosts, chosen.accept_new_host_keys, chosen.connect_timeout_s
    )


def here() -> Here:
    """This machine, as the plan needs to know it."""
    return Here(
        folder=str(Path.cwd()),
        python=sys.executable,
        script=str(PROJECT / "experiment.py"),
        username=_own_name(),
        known_hosts=os.path.expanduser("~/.ssh/known_hosts"),
        is_own_address=_is_own_address,
        ssh_agent=os.environ.get("SSH_AUTH_SOCK", ""),
    )


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name there
        return str(os.getuid())


def _is_own_address(ip: str) -> bool:
    """Whether an address is one of this machine's: only then is it the source on the way there.

    Nothing is sent. Binding to it says less: with ip_nonlocal_bind=1 that works with any address.
    """
    if host_of(ip) in ("localhost", socket.gethostname().lower()):
        return True
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # inet_pton refuses names, which connect would look up.
            socket.inet_pton(family, ip)
            probe.connect((ip, 9))
        except OSError:
            return False
        return probe.getsockname()[0].partition("%")[0] == ip.partition("%")[0]
