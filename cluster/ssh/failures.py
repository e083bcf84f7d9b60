"""Why a host cannot be used, and how to fix it."""

import errno
import shlex
import socket
from pathlib import Path

import paramiko

from cluster.model import Host
from cluster.ssh.keys import ENCRYPTED, BadFile, ChangedKey, NewKey, RefusedCertificate
from cluster.ssh.known_hosts import name_of

UNREACHED = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)
# A network that is away for a moment, or a host that restarts.
AWAY = (*UNREACHED, errno.ETIMEDOUT, errno.ECONNRESET, errno.EPIPE)


class HostFailed(Exception):
    """A problem with a host, and how to fix it; a ``passing`` one may be gone a minute later."""

    def __init__(self, problem: str, remedy: str = "", passing: bool = False):
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.passing = passing

    def __str__(self) -> str:
        return f"{self.problem}. {self.remedy}".rstrip()


def failure(
    host: Host,
    error: Exception,
    by_password: bool,
    known_hosts: Path,
    timeout_s: float,
    jump: str = "",
) -> HostFailed:
    """The problem and remedy for a failed connection; ``jump``: the name of a jump host."""
    return (
        _of_keys(host, error, known_hosts)
        or _of_jump_host(host, error)
        or _of_login(host, error, by_password, jump)
        or _of_network(host, error, timeout_s)
        or _of_ssh(host, error)
    )


def _of_keys(host: Host, error: Exception, known_hosts: Path) -> HostFailed | None:
    """For files of keys that cannot be used, and hosts that are not trusted."""
    if isinstance(error, BadFile):
        return HostFailed(error.problem, error.remedy)
    if isinstance(error, NewKey):
        return HostFailed(
            f"its host key is not known ({error})",
            "Compare it with the host's own key, then give --accept_new_host_keys",
        )
    if isinstance(error, ChangedKey):
        name = name_of(host.ip, host.ssh_port)
        return HostFailed(
            f"its host key has CHANGED (now {error})",
            "It may be another machine. If the change is yours: "
            f"ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(str(known_hosts))}",
        )
    if isinstance(error, RefusedCertificate):
        return HostFailed(
            f"its host certificate is refused: {error}",
            "Have it signed again, or fix the line @cert-authority in known_hosts",
        )
    return None


def _of_jump_host(host: Host, error: Exception) -> HostFailed | None:
    if not isinstance(error, paramiko.ChannelException):
        return None
    return HostFailed(
        f"the jump host before it cannot reach it at port {host.ssh_port} ({error.text})",
        "Is sshd running there, and may that host forward connections?",
        passing=True,
    )


def _of_login(host: Host, error: Exception, by_password: bool, jump: str) -> HostFailed | None:
    """For hosts that let this user in with none of the keys, and not with the password."""
    # It is not offered the password of the hosts behind it, and seldom has a row in the CSV.
    of_jump = ""
    if jump and not by_password:
        of_jump = f"Give Host {jump} an IdentityFile in the SSH configuration, or use ssh-add"
    if isinstance(error, paramiko.PasswordRequiredException):
        return HostFailed("this user's key is encrypted", of_jump or ENCRYPTED)
    if isinstance(error, paramiko.AuthenticationException) and not _is_cut(error):
        means = "the password" if by_password else f"the key {host.key or 'of this user'}"
        return HostFailed(
            f"login as {host.username} refused with {means}",
            of_jump
            or "Fix ssh_username, ssh_password or ssh_key in the CSV, and name it with "
            "--workers_csv_path",
        )
    if "No authentication methods" in str(error):
        return HostFailed(
            "there is no key and no password to log in with",
            of_jump or "Give ssh_key or ssh_password in the CSV, or --ask_ssh_password",
        )
    return None


def _of_network(host: Host, error: Exception, timeout_s: float) -> HostFailed | None:
    """For hosts that are not found, that do not answer, or where no SSH server does."""
    where = f"port {host.ssh_port}"
    if isinstance(error, socket.gaierror):
        return HostFailed(
            "its name cannot be resolved",
            "Fix column ip in the CSV",
            passing=error.errno == socket.EAI_AGAIN,
        )
    # paramiko raises the second for a session that ended because no banner came.
    if "banner" in str(error) or "No existing session" in str(error):
        return HostFailed(
            f"{where} is open, but no SSH server answers within {timeout_s:g} s",
            "Check sshd there, or fix ssh_port",
            passing=True,
        )
    if isinstance(error, TimeoutError):
        return HostFailed(
            f"does not answer at {where} within {timeout_s:g} s",
            "Is it running, and is the network open?",
            passing=True,
        )
    if isinstance(error, OSError) and error.errno in UNREACHED:
        return HostFailed(
            f"does not answer at {where}: {error.strerror}",
            "Is it running, and is the network open?",
            passing=True,
        )
    if isinstance(error, ConnectionRefusedError):
        return HostFailed(
            f"{where}: {error.strerror}", "Is sshd running there, and is ssh_port right?"
        )
    return None


def _of_ssh(host: Host, error: Exception) -> HostFailed:
    """For whatever else ends a connection; it may pass if the connection was broken off."""
    broken = isinstance(error, EOFError) or _is_cut(error) or type(error) is paramiko.SSHException
    passing = broken or (isinstance(error, OSError) and error.errno in AWAY)
    return HostFailed(
        f"SSH at port {host.ssh_port}: {error or type(error).__name__}", passing=passing
    )


def _is_cut(error: Exception) -> bool:
    """Whether a connection ended during a login, which paramiko calls a refusal, too."""
    return "timeout" in str(error) or "transport shut down" in str(error)
