"""Ways to hosts, as the user's own SSH configuration has them: names, ports, keys, jump hosts."""

import dataclasses
import glob
import os.path
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import paramiko

from cluster.inventory.hosts_csv import Row
from cluster.model import Host, Route
from user_error import UserError

# OpenSSH's own limit for files that include one another; also for jump hosts behind jump hosts.
MOST_LEVELS = 16


class Routes:
    """What an SSH configuration says of hosts; an empty path means that there is none."""

    def __init__(self, path: str, username: str):
        self._path = path
        self._username = username
        self._lines = list(_lines(path, 0)) if path else []
        self._config = self._parsed([])

    def of(self, host: Host) -> Route:
        """How to get to a host whose port and user are known."""
        found = self._looked_up(host)
        command = found.get("proxycommand") or ""
        jumps = "" if command else found.get("proxyjump") or ""
        return Route(
            found.get("hostname", host.ip),
            tuple(map(os.path.expanduser, found.get("identityfile", ()))),
            () if jumps.lower() in ("", "none") else self._chain(host, jumps.split(",")),
            command,
        )

    def filled(self, rows: Sequence[Row], is_own_address: Callable[[str], bool]) -> list[Row]:
        """The rows of other hosts, with port and user where only the configuration has them."""
        return [
            row if not row.has_ssh and is_own_address(row.ip) else self._filled(row) for row in rows
        ]

    def _filled(self, row: Row) -> Row:
        port, user = self._login(row.ip)
        return dataclasses.replace(
            row, ssh_port=row.ssh_port or port, ssh_username=row.ssh_username or user
        )

    def _login(self, name: str) -> tuple[int | None, str]:
        found = self._found(self._config, name)
        try:
            port = int(found["port"]) if "port" in found else None
        except ValueError:
            raise UserError(f"{self._path}: Port {found['port']} of {name} is no number.") from None
        return port, found.get("user", "")

    def _looked_up(self, host: Host) -> paramiko.SSHConfigDict:
        found = self._found(self._config, host.ip)
        if found.get("proxycommand"):
            # The CSV's values come first, also where the command has %p and %r.
            first = [f"Port {host.ssh_port}", f"User {host.username}"]
            found = self._found(self._parsed(first), host.ip)
        return found

    def _chain(self, host: Host, words: list[str], level: int = 0) -> tuple[Host, ...]:
        """Jump hosts in the order in which they are passed; the first may need some of its own."""
        if level == MOST_LEVELS:
            raise UserError(
                f"{self._path}: the jump hosts of {host.ip} lead back to one another. "
                "Fix ProxyJump there."
            )
        jumps = [self._jump(word.strip()) for word in words]
        more = self._found(self._config, jumps[0].ip).get("proxyjump") or "none"
        before = () if more.lower() == "none" else self._chain(host, more.split(","), level + 1)
        return (*before, *jumps)

    def _jump(self, word: str) -> Host:
        user, _, there = word.removeprefix("ssh://").rpartition("@")
        name, port = there, ""
        if there.startswith("["):
            name, _, port = there[1:].partition("]")
        elif there.count(":") == 1:
            name, port = there.split(":")
        given, configured = port.strip(":"), self._login(name)
        if given and not given.isdigit():
            raise UserError(f"{self._path}: ProxyJump {word} is not [user@]host[:port].")
        return Host(
            name, int(given or configured[0] or 22), user or configured[1] or self._username
        )

    def _found(self, config: paramiko.SSHConfig, name: str) -> paramiko.SSHConfigDict:
        try:
            return config.lookup(name)
        except (paramiko.SSHException, ImportError, KeyError, ValueError) as error:
            raise self._unusable(error) from None

    def _parsed(self, first: Sequence[str]) -> paramiko.SSHConfig:
        try:
            return paramiko.SSHConfig.from_text("\n".join([*first, *self._lines]))
        except (paramiko.SSHException, ValueError) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> UserError:
        return UserError(
            f"{self._path} cannot be used: {type(error).__name__}: {error}. Fix it, or give "
            "--ssh_config with another file, or --ssh_config=none."
        )


def config_of(given: str) -> str:
    """The path of the file that --ssh_config means; "" if there is none."""
    if given == "none":
        return ""
    path = os.path.expanduser(given or "~/.ssh/config")
    if given and not os.path.isfile(path):
        raise UserError(f"--ssh_config={given}: there is no such file. Name another, or none.")
    return os.path.abspath(path) if os.path.isfile(path) else ""


def _lines(path: str, level: int) -> Iterator[str]:
    """The lines of a file and of those that it includes, which paramiko does not read itself."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} cannot be read: {getattr(error, 'strerror', 'it is not UTF-8')}. Fix it, or "
            "give --ssh_config=none."
        ) from None
    block = "Host *"
    for line in map(str.strip, text.splitlines()):
        keyword, _, value = line.replace("=", " ", 1).replace("\t", " ").partition(" ")
        if keyword.lower() in ("host", "match"):
            block = line
        if keyword.lower() != "include" or level == MOST_LEVELS:
            yield line
            continue
        for pattern in value.split():
            there = os.path.expanduser(pattern.strip('"'))
            for included in sorted(glob.glob(os.path.join(os.path.expanduser("~/.ssh"), there))):
                yield block
                yield from _lines(included, level + 1)
        yield block  # what follows belongs to it again
