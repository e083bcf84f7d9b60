"""Certificates of hosts: a key with names and a time, signed by an authority of known_hosts."""

import base64
import functools
import re
import time
from collections.abc import Collection

import paramiko
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from cluster.ssh.keys import RefusedCertificate

SUFFIX = "-cert-v01@openssh.com"


class Transport(paramiko.Transport):
    """A connection that asks for some kinds of keys first, and keeps what the host has shown."""

    def __init__(self, sock: object, kinds: Collection[str], **options: object):
        self._kinds = kinds
        self.shown = b""
        super().__init__(sock, **options)

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        """The kinds of host keys, those asked for first in front."""
        every = super().preferred_keys
        first = tuple(dict.fromkeys(one for one in self._kinds if one in every))
        return first + tuple(one for one in every if one not in first)

    def _verify_key(self, host_key: bytes, sig: bytes) -> None:
        # The host has proved that the key is its own; paramiko forgets what is around the key.
        super()._verify_key(host_key, sig)
        self.shown = host_key


def read(shown: bytes) -> SSHCertificate | None:
    """The certificate that a host has shown; None if it was only a key."""
    kind = paramiko.Message(shown).get_text()
    if not kind.endswith(SUFFIX):
        return None
    try:
        found = load_ssh_public_identity(f"{kind} ".encode() + base64.b64encode(shown))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise RefusedCertificate(f"it cannot be read: {error}") from None
    assert isinstance(found, SSHCertificate)
    return found


def authority(certificate: SSHCertificate) -> str:
    """The key that has signed it, as known_hosts has it."""
    return _text(certificate.signature_key())


def problem(certificate: SSHCertificate, authorities: Collection[str], host: str) -> str:
    """Why a host of this name cannot have it, or ""."""
    now = time.time()
    if authority(certificate) not in authorities:
        return "an authority has signed it that known_hosts does not name for this host"
    try:
        certificate.verify_cert_signature()
    except (InvalidSignature, UnsupportedAlgorithm):
        return "its signature is wrong"
    if certificate.type is not SSHCertificateType.HOST:
        return "it is one for a user, not for a host"
    if certificate.critical_options:
        options = b", ".join(certificate.critical_options).decode("utf-8", "replace")
        return f"it has options that no host's certificate has: {options}"
    names = [one.decode("utf-8", "replace") for one in certificate.valid_principals]
    if names and not any(matches(one, host) for one in names):
        return f"it is for {', '.join(names[:4])}{' …' if len(names) > 4 else ''}, not for {host}"
    if now < certificate.valid_after:
        return f"it is valid from {_date(certificate.valid_after)} on"
    if now >= certificate.valid_before:
        return f"it expired at {_date(certificate.valid_before)}"
    return ""


def matches(pattern: str, host: str) -> bool:
    """Whether a name fits a pattern of OpenSSH, with * and ?."""
    return bool(_compiled(pattern.lower()).fullmatch(host.lower()))


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Not fnmatch, which would take [host]:port for a choice of letters.
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."))


def _text(key: object) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1].decode()  # type: ignore[attr-defined]


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
