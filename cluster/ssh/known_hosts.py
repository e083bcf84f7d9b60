"""Known hosts: which keys, and which authorities, a host of a name may show."""

import base64
import binascii
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import paramiko

from cluster.ssh import certificates
from cluster.ssh.keys import BadFile, ChangedKey, NewKey, RefusedCertificate

AUTHORITY, REVOKED = "@cert-authority", "@revoked"
HASHED, SALT_BYTES = "|1|", 20
# The ways in which an RSA key may sign; known_hosts calls them all ssh-rsa.
RSA = ("rsa-sha2-512", "rsa-sha2-256")


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of a file of hosts."""

    marker: str
    patterns: tuple[str, ...]
    kind: str
    key: str
    path: str

    def names(self, *called: str) -> bool:
        """Whether it is about a host, called so in one way or another."""
        matching = [
            one
            for one in self.patterns
            if any(_matches(one.removeprefix("!"), name) for name in called)
        ]
        return bool(matching) and not any(one.startswith("!") for one in matching)


class KnownHosts:
    """The lines of several files, read again when one has changed."""

    def __init__(self, paths: Sequence[str], appended: Path | None):
        """``appended`` gets the keys of new hosts; where it is None, they are refused."""
        self._paths = paths
        self._appended = appended
        self._lock = threading.Lock()
        self._read: dict[str, tuple[tuple[int, int], list[Line]]] = {}

    def kinds(self, host: str, port: int) -> list[str]:
        """The kinds of keys to ask a host for first."""
        lines = self._about(host, port)
        certified = any(line.marker == AUTHORITY for line in lines)
        plain = [line.kind for line in lines if not line.marker]
        kinds = [one for kind in plain for one in (RSA if kind == "ssh-rsa" else (kind,))]
        every = paramiko.Transport._preferred_keys  # a server may have one of any kind
        return [*(f"{one}{certificates.SUFFIX}" for one in every if certified), *kinds]

    def check(self, host: str, port: int, key: paramiko.PKey, shown: bytes) -> None:
        """An error unless a host may have this key; ``shown`` is what it has sent."""
        certificate = certificates.read(shown)
        texts = [key.get_base64(), _text(shown)]
        texts += [certificates.authority(certificate)] if certificate else []
        for line in self._lines():
            if line.marker == REVOKED and line.key in texts:
                raise BadFile(f"its host key is revoked in {line.path}", "Do not log in there")
        lines = self._about(host, port)
        authorities = {line.key for line in lines if line.marker == AUTHORITY}
        problem = ""
        if certificate and authorities:
            problem = certificates.problem(certificate, authorities, host)
            if not problem:
                return
        known = [line for line in lines if not line.marker]
        if any(line.key == key.get_base64() for line in known):
            return
        if problem:
            raise RefusedCertificate(problem)
        name = name_of(host, port)
        if any(line.names(name) for line in known):
            raise ChangedKey(key.fingerprint)
        if self._appended is None:
            raise NewKey(f"{key.get_name()} {key.fingerprint}")
        self._append(self._appended, f"{name} {key.get_name()} {key.get_base64()}\n")

    def _about(self, host: str, port: int) -> list[Line]:
        """The lines about a host; OpenSSH, too, takes those without its port."""
        return [line for line in self._lines() if line.names(name_of(host, port), host)]

    def _lines(self) -> list[Line]:
        with self._lock:
            return [line for path in self._paths for line in self._of(path)]

    def _of(self, path: str) -> list[Line]:
        try:
            state = Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _unreadable(path, error) from None
        now = state.st_mtime_ns, state.st_size
        if path not in self._read or self._read[path][0] != now:
            self._read[path] = now, list(_parsed(path))
        return self._read[path][1]

    def _append(self, path: Path, line: str) -> None:
        """Adds a line; paramiko's own way rewrites the whole file, without its comments."""
        try:
            with self._lock:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with open(path, "a+") as file:
                    file.seek(0)
                    before = file.read()
                    file.write(line if not before or before.endswith("\n") else f"\n{line}")
        except OSError as error:
            raise BadFile(
                f"its host key cannot be added to {path}: {error.strerror}",
                "Fix the permissions of that file",
            ) from None


def name_of(host: str, port: int) -> str:
    """The name of a host in known_hosts."""
    return host if port == 22 else f"[{host}]:{port}"


def _parsed(path: str) -> Iterator[Line]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError:
        raise BadFile(f"{path} is not a text file", "Remove the bytes that are not UTF-8") from None
    for line in map(str.strip, text.splitlines()):
        marker = line.split()[0] if line.startswith("@") else ""
        fields = line.removeprefix(marker).split()
        if line.startswith("#") or len(fields) < 3:
            continue
        hosts, kind, key = fields[:3]
        try:
            blob = base64.b64decode(key, validate=True)
            _check_hashes(hosts.split(","))
        except binascii.Error:
            raise BadFile(f"{path} has a damaged line: {line[:60]} …", "Remove it") from None
        yield Line(marker, tuple(hosts.split(",")), kind, _text(blob), path)


def _unreadable(path: str, error: OSError) -> BadFile:
    return BadFile(f"{path} cannot be read: {error.strerror}", "Fix the permissions of that file")


def _text(blob: bytes) -> str:
    return base64.b64encode(blob).decode()


def _check_hashes(names: Sequence[str]) -> None:
    """A ``binascii.Error`` if one is hashed with a salt of another length than it has."""
    for one in names:
        if one.startswith(HASHED) and len(base64.b64decode(one.split("|")[2])) != SALT_BYTES:
            raise binascii.Error


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith(HASHED):
        return paramiko.HostKeys.hash_host(name.lower(), pattern) == pattern
    return certificates.matches(pattern, name)
