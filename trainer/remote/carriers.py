"""What carries unrolls between processes, by ``--transport``; and who is thereby trusted."""

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
from transport.link import Connection
from transport.receiver import Server
from user_error import UserError


def connector(settings: RemoteSettings, credentials_file: str) -> Callable[[], Connection]:
    """How an actor connects to its learner."""
    host, port = addresses.address(settings.learner_host)
    if settings.transport == "tensorflow":
        return lambda: distributed.Connection(host, port, settings.peer_timeout_s)
    from transport import secure

    mine = credentials.read(credentials_file, of_learner=False)
    return lambda: secure.Connection(host, port, mine, settings.peer_timeout_s)


def of_team(settings: RemoteSettings, credentials_file: str, team: Team) -> Credentials | None:
    """A learner's credentials, which all learners of a team share; None where there are none."""
    if settings.transport == "tensorflow":
        return None
    if not settings.credentials:
        credentials.make(Path(credentials_file).parent)
    mine = credentials.read(credentials_file, of_learner=True)
    if team.tell(mine.fingerprint) != mine.fingerprint:
        raise UserError(
            f"--credentials={mine.path} of learner {team.rank} differs from that of learner 0. "
            "Learners that train together share one: copy it from there."
        )
    return mine


def server(
    settings: RemoteSettings, mine: Credentials | None, block_bytes: int, say: Callable[[str], None]
) -> Server:
    """Listens for a learner's actors, and says what that means where others may come.

    ``block_bytes`` are those of the largest block of unrolls that an actor may send.
    """
    host, port = addresses.address(settings.learner_host)
    if mine is None:
        plain = distributed.Server(host, port)
        _check_known(host, say)
        if not is_loopback(host):
            say(
                f"warning: whoever reaches port {port} of this machine can run operations of "
                "TensorFlow in this process, and read and change what passes. Let only machines "
                "reach it that you trust, or give --transport=secure: see docs/trust.md."
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


def _check_known(host: str, say: Callable[[str], None]) -> None:
    """Warns of a name under which actors will hardly find this learner; it listens all the same."""
    try:
        socket.getaddrinfo(host.strip("[]"), None)
    except OSError as error:
        say(
            f"warning: this machine does not know {host} of --learner_host ({error.strerror}); "
            "actors to which it means nothing either will not find this learner."
        )


def on_one_machine(settings: RemoteSettings) -> bool:
    """Whether a learner and its actors share cores: no other machine reaches such an address.

    Unrolls that are made up have no actors.
    """
    host, _ = addresses.address(settings.learner_host)
    return not settings.synthetic_unrolls and is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether only this machine knows a host by that name."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
