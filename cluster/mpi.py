"""The ``mpirun`` of several learners: its command, its host file and its SSH configuration."""

import os.path
from collections import Counter
from collections.abc import Sequence

from cluster.model import Here, Host, Mpirun, Route
from cluster.on_host.processes import MARK
from cluster.options import Options
from user_error import UserError

# Stands for the run's id in files of a plan, which is made before the run has one. OpenSSH expands
# environment variables there only since 8.4.
RUN_ID = "{run_id}"
# A host that is gone is noticed within half a minute; Open MPI itself would take eight.
KEEPALIVE = {"time": 10, "intvl": 5, "probes": 4}


def command(
    ranks: Sequence[tuple[str, tuple[str, ...]]], files: Sequence[str], options: Options
) -> tuple[str, ...]:
    """One ``mpirun`` over (host, command) pairs; ``files`` are those of ``spread``, if any."""
    argv = ["mpirun", "-tag-output"]
    # How long the other learners have to end when one fails. mpirun always waits for all of it.
    argv += ["-mca", "odls_base_sigkill_timeout", "5"]
    if files:
        hosts, config = files
        argv += ["-hostfile", hosts, "-mca", "plm_rsh_agent", f"ssh -F {config}"]
        for name, value in KEEPALIVE.items():
            argv += ["-mca", f"oob_tcp_keepalive_{name}", str(value)]
    else:
        argv += ["-H", ",".join(host for host, _ in ranks)]
    if options.mpirun_network:
        for layer in ("btl", "oob"):
            argv += ["-mca", f"{layer}_tcp_if_include", options.mpirun_network]
    for index, (host, rank) in enumerate(ranks):
        argv += [":"] if index else []
        argv += ["-H", host] if files else []
        argv += ["-x", MARK] if files else []  # its own host inherits the whole environment
        argv += ["-np", "1", "-bind-to", "none", "-map-by", "slot", *rank]
    return tuple(argv)


def spread(
    folder: str,
    ranks: Sequence[tuple[str, Host]],
    by_password: set[Host],
    here: Here,
    agent: str = "",
) -> Mpirun:
    """The files and logins for learners on several hosts: a host file, an SSH configuration.

    ``agent`` is whom they train, if there are several agents.
    """
    suffix = f"_{agent}" if agent else ""
    # mpirun splits its SSH command at spaces, and takes what follows a colon for another command.
    if any(letter.isspace() or letter == ":" for letter in folder):
        raise UserError(
            f"--logdir: {folder} has a space or a colon in it, which mpirun's SSH command does "
            "not support. Name another folder."
        )
    slots = Counter(name for name, _ in ranks)
    hosts = "".join(f"{name} slots={count}\n" for name, count in slots.items())
    others = {name: host for name, host in ranks if not host.is_local}
    logins = [(name, host) for name, host in others.items() if host in by_password]
    # Not in the logdir, whose path may be too long for a socket. These connections have no
    # keepalive: they survive a network outage and work again afterwards.
    sockets = {name: f"/tmp/impala-ssh-{RUN_ID}-{index}" for index, (name, _) in enumerate(logins)}
    entries = [_entry(name, host, sockets.get(name), here) for name, host in others.items()]
    entries += _jump_entries([here.route(host) for host in others.values()], here)
    by_agent = [host for host in others.values() if not host.key and host not in by_password]
    return Mpirun(
        files=(
            (os.path.join(folder, f"mpirun_hosts{suffix}"), hosts),
            (os.path.join(folder, f"ssh_config{suffix}"), "\n".join(entries)),
        ),
        # A tmux server that was already running may have another agent, or none.
        env=(("SSH_AUTH_SOCK", here.ssh_agent),) if by_agent and here.ssh_agent else (),
        by_password=tuple(logins),
    )


def _entry(name: str, host: Host, socket: str | None, here: Here) -> str:
    route = here.route(host)
    lines = [
        f"Host {name}",
        # After the % in an IPv6 address comes the name of an interface.
        f"  HostName {route.address.replace('%', '%%')}",
        f"  Port {host.ssh_port}",
        f"  User {host.username}",
        *_common(here),
        # For a host that is away for half a minute, whether its packets get lost or are refused.
        "  ConnectTimeout 10",
        "  ConnectionAttempts 8",
    ]
    if host.key:
        lines += [f"  IdentityFile {_path(host.key)}", "  IdentitiesOnly yes"]
    else:
        lines += [f"  IdentityFile {_path(key)}" for key in route.keys]
    if route.command:
        lines.append(f"  ProxyCommand {route.command.replace('%', '%%')}")
    if route.jumps:
        jumps = [f"{one.username}@{_bracketed(one.ip)}:{one.ssh_port}" for one in route.jumps]
        lines.append(f"  ProxyJump {','.join(jumps)}")
    if socket:
        lines.append(f"  ControlPath {socket}")
    return "\n".join(lines) + "\n"


def _jump_entries(routes: Sequence[Route], here: Here) -> list[str]:
    """What the jump hosts need: the user's own configuration, whatever it says of them."""
    names = list(dict.fromkeys(one.ip for route in routes for one in route.jumps))
    # A connection that the user's later ones share must not be one of the run, which ends with it.
    alone = ["  ControlMaster no", "  ControlPath none"]
    lines = [
        f"Host {' '.join(names)}",
        *_common(here),
        *alone,
        f"  Include {_path(here.ssh_config)}",
    ]
    return ["\n".join(lines) + "\n"] if names else []


def _common(here: Here) -> list[str]:
    return [
        f"  UserKnownHostsFile {_path(here.known_hosts)}",
        "  StrictHostKeyChecking yes",
        "  BatchMode yes",
    ]


def _bracketed(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def _path(path: str) -> str:
    """A path, quoted for ssh_config."""
    return '"' + path.replace("%", "%%") + '"'
