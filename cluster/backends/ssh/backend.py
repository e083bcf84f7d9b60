"""The backend for hosts that are reached by SSH, this machine included."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from checkout import is_checkout
from cluster import agents, show
from cluster.actions.seen import Seen
from cluster.backends.backend import Tails
from cluster.backends.ssh import (
    adding,
    checking,
    entrusting,
    fetching,
    looking,
    progress,
    removing,
    starting,
    stopping,
    syncing,
    tailing,
)
from cluster.backends.ssh.hosts import AGAIN_S, Hosts
from cluster.inventory import hosts_csv
from cluster.inventory.hosts_csv import Row
from cluster.model import Here, Host, Plan
from cluster.options import Options, passed_on
from cluster.plan import host_of_row, make_plan, without_learners_on
from cluster.record import Part, Record, one_fetch, read, refuse_elsewhere
from cluster.ssh.passwords import Passwords, warn_if_readable
from cluster.ssh.routes import Routes, config_of
from cluster.ssh.ssh import TRIED_AGAIN_AFTER_S, Connections
from cluster.this_machine import here
from trainer.machine.launching import PROJECT
from trainer.settings.config import Settings
from user_error import UserError


class SshBackend:
    """See ``Backend``."""

    def __init__(self, options: Options, settings: Settings):
        self._options = options
        self._settings = settings
        self._routes = routes_of(options)
        self._rows = rows_of(options, self._routes)
        self._plan: Plan
        self._silent: set[Host] = set()
        self._ways: Connections | None = None

    @property
    def _connections(self) -> Connections:
        # Made late: it may ask for a password, which a dry run does not need.
        if self._ways is None:
            self._ways = connections(self._options, self._rows, self._routes)
        return self._ways

    @property
    def _hosts(self) -> Hosts:
        return Hosts(self._connections)

    @property
    def _here(self) -> Here:
        return here_with(self._options, self._routes)

    def prepare(self) -> None:
        self._plan = make_plan(self._rows, self._settings, self._options, self._here)
        others = [one.host for one in self._plan.members if not one.host.is_local]
        if others and not is_checkout():
            raise UserError(
                f"{others[0]}: other hosts get the project from its folder, which pip does not "
                "install. Clone the project, and run its run_experiment_mm_raw.py instead."
            )

    def show(self) -> None:
        show.show(self._plan, self._options.ssh_config)

    def sync(self) -> int:
        return syncing.sync(self._plan, self._connections, PROJECT)

    def check(self, before: Record | None = None) -> bool:
        options = self._options
        known = before or read(self._plan.logdir)
        # Beside one's own living run, a check says whether a restart would work.
        replaced = known if options.action == "check" else before
        wrong, self._silent = checking.check(
            self._plan, self._hosts, PROJECT, options.tmux_sess, replaced, options.patience
        )
        if wrong:
            show.console().print(checking.table(wrong))
        plan = self._without_silent() if options.allow_partial else self._plan
        for agent, (first, *_) in agents.teams(plan.learners).items():
            progress.must_be_found(
                known, first.place, plan.logdir, agent, self._hosts, options.allow_partial
            )
        return not wrong

    def start(self) -> int:
        usable = self._without_silent()
        if len(usable.learners) < len(self._plan.learners):
            print("Continuing without the learners on hosts that cannot be used.")
            self._plan = usable
        secure = self._settings.remote.transport == "secure"
        if secure or self._plan.remotes:
            folder, patience_s = Path(self._plan.logdir), self._options.patience
            entrusted = entrusting.entrust(self._plan, self._hosts, folder, patience_s, secure)
            if not entrusted and not self._options.allow_partial:
                return 1
        passwords = self._connections.passwords
        # What a restarted actor and one that is added later must have in common with it.
        flags = [
            *passed_on(self._settings, logdir=self._settings.run_folder),
            f"--restart_actors={self._options.restart_actors}",
            f"--log_megabytes={self._options.log_megabytes}",
        ]
        return starting.start(self._plan, self._options, self._hosts, passwords, PROJECT, flags)

    def _without_silent(self) -> Plan:
        rows = without_learners_on(self._silent, self._rows, here())
        return make_plan(rows, self._settings, self._options, self._here)

    def look(self, record: Record) -> Seen:
        return looking.look(record, self._hosts)

    def parts(self, record: Record) -> Sequence[Part]:
        return record.parts

    def tail(self, record: Record, offsets: Mapping[str, int]) -> Tails:
        return tailing.tail(record, self._hosts, offsets)

    def fetch(self, record: Record, folder: str) -> int:
        options = self._options
        with one_fetch(folder):
            return fetching.fetch(record, self._hosts, folder, options.fetch, options.patience)

    def add(self, record: Record) -> int:
        refuse_elsewhere(record)
        seen = looking.find_learners(record, self._hosts, self._options.patience)
        plan, away = adding.plan(record, seen, self._rows, self._settings, self._options)
        if not plan.actors and not away:
            print(f"{self._options.workers_csv_path}: every actor in it is running already.")
            return 0
        if self._options.dry_run:
            show.show(plan, self._options.ssh_config)
            return 0
        added = 0
        if plan.actors:
            added = adding.add(plan, record, self._options, self._settings, self._hosts, PROJECT)
        for one in away:
            print(f"{adding.unseen(one)}. It was not added: it may be running.")
        return added or int(bool(away))

    def remove(self, record: Record) -> int:
        return removing.remove(record, self._options, self._hosts)

    def stop(self, record: Record) -> int:
        return stopping.stop(record, self._options, self._hosts)

    def close(self) -> None:
        if self._ways is not None:
            self._ways.close()
            self._ways = None


def routes_of(chosen: Options) -> Routes:
    """Ways to hosts, as the chosen SSH configuration has them."""
    return Routes(config_of(chosen.ssh_config), here().username)


def here_with(chosen: Options, routes: Routes) -> Here:
    """This machine, with the chosen SSH configuration and the ways to hosts that it has."""
    return dataclasses.replace(here(), ssh_config=config_of(chosen.ssh_config), route=routes.of)


def rows_of(chosen: Options, routes: Routes) -> list[Row]:
    """The rows of the CSV, if there is one, completed from the SSH configuration."""
    path = chosen.workers_csv_path
    return routes.filled(hosts_csv.read(Path(path)), here().is_own_address) if path else []


@contextlib.contextmanager
def hosts_of_before(chosen: Options) -> Iterator[Hosts]:
    """The hosts of a run in whose place another backend is to start one."""
    with contextlib.closing(connections(chosen, [], routes_of(chosen))) as ways:
        yield Hosts(ways)


def connections(chosen: Options, rows: list[Row], routes: Routes) -> Connections:
    """Connections to the hosts of the rows; warns where others can read their passwords."""
    if any(row.ssh_password for row in rows):
        warn_if_readable(Path(chosen.workers_csv_path))
    me = here()
    given = {host_of_row(row, me): row.ssh_password for row in rows if row.ssh_password}
    passwords = Passwords(given, chosen)
    # Several new attempts within the patience of an action, however short that is.
    again_s = min(TRIED_AGAIN_AFTER_S, max(AGAIN_S, chosen.patience_s / 4))
    return Connections(
        passwords,
        me.known_hosts,
        chosen.accept_new_host_keys,
        chosen.connect_timeout_s,
        routes.of,
        again_s,
    )
