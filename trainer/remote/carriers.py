"""What carries unrolls between processes, by ``--transport``; and who is thereby trusted."""

import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path

import credentials
from credentials import Credentials
from trainer.settings import addresses, sizes
from trainer.settings.config import Settings
from trainer.team.team import Team
from transport import distributed
from transport.link import Connection
from transport.receiver import Server
from user_error import UserError

# Unrolls in a block that a learner takes whatever its own settings; those of larger blocks, too.
ORDINARY_UNROLLS = 256


def connector(settings: Settings) -> Callable[[], Connection]:
    """How an actor connects to its learner."""
    host, port = addresses.address(settings)
    if settings.remote.transport == "tensorflow":
        return lambda: distributed.Connection(host, port, settings.remote.peer_timeout_s)
    from transport import secure

    mine = credentials.read(settings.credentials_file, of_learner=False)
    return lambda: secure.Connection(host, port, mine, settings.remote.peer_timeout_s)


def of_team(settings: Settings, team: Team) -> Credentials | None:
    """A learner's credentials, which all learners of a team share; None where there are none."""
    if settings.remote.transport == "tensorflow":
        return None
    if not settings.remote.credentials:
        credentials.make(Path(settings.credentials_folder))
    mine = credentials.read(settings.credentials_file, of_learner=True)
    if team.tell(mine.fingerprint) != mine.fingerprint:
        raise UserError(
            f"--credentials={mine.path} of learner {team.rank} differs from that of learner 0. "
            "Learners that train together share one: copy it from there."
        )
    return mine


def server(
    settings: Settings, mine: Credentials | None, unroll_bytes: int, say: Callable[[str], None]
) -> Server:
    """Listens for a learner's actors, and says what that means where others may come."""
    host, port = addresses.address(settings)
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

    most = max(ORDINARY_UNROLLS, sizes.envs_per_actor(settings), sizes.waiting_unrolls(settings))
    secured = secure.Server(
        host,
        port,
        mine,
        most_bytes=most * unroll_bytes,
        timeout_s=settings.remote.peer_timeout_s,
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


def on_one_machine(settings: Settings) -> bool:
    """Whether a learner and its actors share cores: no other machine reaches such an address.

    Unrolls that are made up have no actors.
    """
    return not settings.remote.synthetic_unrolls and is_loopback(addresses.address(settings)[0])


def is_loopback(host: str) -> bool:
    """Whether only this machine knows a host by that name."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
