"""The ``mpirun`` of several learners: its command, its host file and its SSH configuration."""

import os.path
from collections import Counter
from collections.abc import Sequence

from cluster.model import Here, Host
from cluster.on_host.processes import MARK
from cluster.options import Options
from user_error import UserError

# mpirun refuses to run as root unless it is told twice; in containers there is often no other.
ROOT_MAY = (("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))


def command(
    ranks: Sequence[tuple[str, tuple[str, ...]]], files: Sequence[str], options: Options
) -> tuple[str, ...]:
    """One ``mpirun`` over (host, command) pairs; ``files`` are those of ``files``, if any."""
    argv = ["mpirun", "-tag-output"]
    # When one learner fails, the others have so long to end. mpirun waits for all of it.
    argv += ["-mca", "odls_base_sigkill_timeout", "5"]
    if files:
        hosts, config = files
        argv += ["-hostfile", hosts, "-mca", "plm_rsh_agent", f"ssh -F {config}"]
    else:
        argv += ["-H", ",".join(host for host, _ in ranks)]
    if options.mpirun_network:
        for layer in ("btl", "oob"):
            argv += ["-mca", f"{layer}_tcp_if_include", options.mpirun_network]
    for index, (host, rank) in enumerate(ranks):
        argv += [":"] if index else []
        argv += ["-H", host] if files else []
        argv += ["-np", "1", "-bind-to", "none", "-map-by", "slot", "-x", MARK, *rank]
    return tuple(argv)


def files(folder: str, ranks: Sequence[tuple[str, Host]], here: Here) -> list[tuple[str, str]]:
    """The host file and the SSH configuration for learners on several hosts."""
    if any(letter.isspace() for letter in folder):
        raise UserError(
            f"--logdir: {folder} has a space in it, which mpirun's SSH command cannot carry. "
            "Name another folder."
        )
    slots = Counter(name for name, _ in ranks)
    hosts = "".join(f"{name} slots={count}\n" for name, count in slots.items())
    entries = [_entry(name, host, here) for name, host in dict(ranks).items() if not host.is_local]
    return [
        (os.path.join(folder, "mpirun_hosts"), hosts),
        (os.path.join(folder, "ssh_config"), "\n".join(entries)),
    ]


def _entry(name: str, host: Host, here: Here) -> str:
    lines = [
        f"Host {name}",
        f"  HostName {host.ip}",
        f"  Port {host.ssh_port}",
        f"  User {host.username}",
        f'  UserKnownHostsFile "{here.known_hosts}"',
        "  StrictHostKeyChecking yes",
        "  BatchMode yes",
    ]
    if host.key:
        lines += [f'  IdentityFile "{host.key}"', "  IdentitiesOnly yes"]
    return "\n".join(lines) + "\n"
