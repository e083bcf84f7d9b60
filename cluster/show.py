"""Shows a plan: as a table, and as commands that can be pasted into a shell."""

import dataclasses
import shlex
import sys
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from cluster.model import Plan, Process
from cluster.mpi import RUN_ID
from cluster.on_host.processes import MARK
from cluster.ssh.logins import MASTER
from cluster.ssh.routes import config_of

# Stands in for the run's id, which names the connections that are opened before mpirun starts.
BY_HAND = (MARK, "by-hand")


def show(plan: Plan, ssh_config: str = "") -> None:
    """Prints which process runs where, then the commands; ``ssh_config``: as the flag has it."""
    console().print(table(plan))
    for line in commands(plan, ssh_config):
        print(line)


def console() -> Console:
    """Where tables go: as wide as the terminal; elsewhere each row is one line.

    The text comes from hosts and CSVs: brackets and colons in it are not markup.
    """
    width = None if sys.stdout.isatty() else 1000
    return Console(width=width, markup=False, emoji=False, highlight=False)


def table(plan: Plan) -> Table:
    """A row for each learner, actor and remote, in the order of the CSV."""
    shown = Table("process", "host", "address", "GPU", "linked to", box=box.SIMPLE)
    for member in (*plan.learners, *plan.actors):
        linked = ", ".join(plan.learners[one].name for one in member.linked)
        if member.row.job == "learner":
            linked = ""
        gpu = member.row.cuda_visible_devices
        name = f"{member.name} ({member.row.agent})" if member.row.agent else member.name
        shown.add_row(name, str(member.host), member.address, gpu, linked)
    for one in plan.remotes:
        remote = one.remote
        shown.add_row(remote.name, str(remote.host), one.address, "", one.actor.name)
    return shown


def commands(plan: Plan, ssh_config: str = "") -> Iterator[str]:
    """Shell lines that do what a start does, without supervising the processes."""
    for path, text in plan.spread.files:
        folder, content = shlex.quote(path.rpartition("/")[0]), text.replace(RUN_ID, BY_HAND[1])
        yield f"mkdir -p {folder} && cat > {shlex.quote(path)} <<'END'\n{content}END"
    for name, host in plan.spread.by_password:
        login = shlex.join(["ssh", "-F", plan.spread.files[-1][0], *MASTER, name])
        yield f"\n# logs in on {host}, for mpirun\n{login}"
    for process in plan.processes:
        spread = bool(process.parts and plan.spread.files)
        by_hand = dataclasses.replace(process, env=(*process.env, *([BY_HAND] if spread else [])))
        yield f"\n# {process.name}{_of(process)} on {process.host}\n{command(by_hand, ssh_config)}"


def command(process: Process, ssh_config: str = "") -> str:
    """The command that starts a process by hand, from this machine."""
    env = "".join(f"{name}={shlex.quote(value)} " for name, value in process.env)
    there = f"cd {shlex.quote(process.place.folder)} && {env}{shlex.join(process.argv)}"
    host = process.host
    if host.is_local:
        return there
    way = ("-F", config_of(ssh_config) or "none") if ssh_config else ()
    ssh = ["ssh", *way, "-p", str(host.ssh_port), *(("-i", host.key) if host.key else ())]
    user = f"{host.username}@" if host.username else ""
    return shlex.join([*ssh, f"{user}{host.ip}", there])


def _of(process: Process) -> str:
    return f" ({', '.join(process.parts)})" if process.parts else ""
