"""Connections between learners and actors by ``--transport``, and whom they trust."""

import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path

import credentials
from credentials import Credentials
from trainer.remote.settings import RemoteSettings
from trainer.settings import addresses
from trainer.team.team import Team
from transport import distributed
from transport.connection import Connection
from transport.receiver import Server
from user_error import UserError


def connector(
    settings: RemoteSettings, credentials_file: str, address: str = "", of_learner: bool = False
) -> Callable[[], Connection]:
    """A function that connects an actor to its learner, or a learner to the one at ``address``."""
    host, port = addresses.address(address or settings.learner_host)
    if settings.transport == "tensorflow":
        return lambda: distributed.Connection(host, port, settings.peer_timeout_s)
    from transport import secure

    mine = credentials.read(credentials_file, of_learner=of_learner)
    return lambda: secure.Connection(host, port, mine, settings.peer_timeout_s)


def of_team(settings: RemoteSettings, credentials_file: str, team: Team) -> Credentials | None:
    """A learner's credentials, which its team shares; None if the transport uses none."""
    if settings.transport == "tensorflow":
        return None
    if not settings.credentials:
        credentials.make(Path(credentials_file).parent)
    mine = credentials.read(credentials_file, of_learner=True)
    if team.broadcast_value(mine.fingerprint) != mine.fingerprint:
        raise UserError(
            f"--credentials={mine.path} of learner {team.rank} differs from learner 0's. "
            "Learners that train together need the same file: copy it from there."
        )
    return mine


def server(
    settings: RemoteSettings, mine: Credentials | None, block_bytes: int, say: Callable[[str], None]
) -> Server:
    """Listens for a learner's actors; warns of the risks if others can connect.

    ``block_bytes`` is the size of the largest block of unrolls that an actor may send.
    """
    host, port = addresses.address(settings.learner_host)
    if mine is None:
        plain = distributed.Server(host, port)
        _warn_if_unknown(host, say)
        say(
            f"warning: anyone who can reach port {port} of this machine can run TensorFlow "
            "operations in this process, and read and change its traffic: TensorFlow listens at "
            "all addresses, whatever --learner_host is. Make sure that only trusted machines can "
            "reach it, or use --transport=secure: see docs/trust.md."
        )
        return plain
    from transport import secure

    secured = secure.Server(
        host,
        port,
        mine,
        most_bytes=block_bytes,
        timeout_s=settings.peer_timeout_s,
        say=say,
    )
    if not is_loopback(host):
        say(
            f"actors on other hosts need a copy of {Path(mine.path).with_name(credentials.ACTOR)} "
            "for --credentials: see docs/trust.md."
        )
    return secured


def _warn_if_unknown(host: str, say: Callable[[str], None]) -> None:
    """Warns if actors are unlikely to find this learner by its name; it listens anyway."""
    try:
        socket.getaddrinfo(host.strip("[]"), None)
    except OSError as error:
        say(
            f"warning: this machine cannot resolve {host} of --learner_host ({error.strerror}); "
            "actors that cannot resolve it either will not find this learner."
        )


def on_one_machine(settings: RemoteSettings, address: str = "") -> bool:
    """Whether a learner and its actors share cores, because only this machine reaches the address.

    Synthetic unrolls need no actors.
    """
    host, _ = addresses.address(address or settings.learner_host)
    return not settings.synthetic_unrolls and is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether the host is a loopback address, which no other machine can reach."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
