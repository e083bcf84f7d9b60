"""Certificates of hosts: a real sshd on this machine shows one, and known_hosts names who signs."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.model import Host
from cluster.options import Options
from cluster.ssh.failures import HostFailed
from cluster.ssh.passwords import Passwords
from cluster.ssh.ssh import Connections

SSHD = "/usr/sbin/sshd"

pytestmark = pytest.mark.skipif(
    not os.path.exists(SSHD) or not shutil.which("ssh-keygen"), reason="needs sshd and ssh-keygen"
)


def keygen(*words: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *words], check=True)


def public(path: Path) -> str:
    """Kind and key, as known_hosts has them."""
    return " ".join(Path(f"{path}.pub").read_text().split()[:2])


class Sshd:
    """An SSH server whose key an authority has signed."""

    def __init__(self, folder: Path, kind: str, *signing: str):
        self.folder = folder
        self.authority, self.key = folder / "authority", folder / "host"
        self.known, self.user = folder / "known_hosts", folder / "user"
        keygen("-t", "ed25519", "-N", "", "-f", str(self.authority))
        keygen("-t", "ed25519", "-N", "", "-f", str(self.user))
        keygen("-t", kind, "-N", "", "-f", str(self.key))
        keygen("-s", str(self.authority), "-I", "id", "-h", *signing, f"{self.key}.pub")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        lines = [
            f"Port {self.port}", "ListenAddress 127.0.0.1", f"HostKey {self.key}", "PidFile none",
            f"HostCertificate {self.key}-cert.pub", "UsePAM no", "StrictModes no",
            f"AuthorizedKeysFile {self.user}.pub", "PermitRootLogin yes",
        ]  # fmt: skip
        (folder / "config").write_text("\n".join(lines) + "\n")
        if not os.geteuid():
            os.makedirs("/run/sshd", exist_ok=True)
        command = [SSHD, "-D", "-f", str(folder / "config")]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", self.port)):
            assert self._process.poll() is None and time.monotonic() < end
            time.sleep(0.05)

    def names(self, *lines: str) -> None:
        """Writes known_hosts."""
        self.known.write_text("\n".join(lines) + "\n")

    def told(self, accept: bool = False) -> str:
        """That it lets us in, or why it cannot be used."""
        connections = Connections(Passwords({}, Options()), str(self.known), accept, 20)
        host = Host("127.0.0.1", self.port, getpass.getuser(), str(self.user))
        try:
            # No command: a login shell's start-up files may take their time.
            connections._open((host,))
            return "in\n"
        except HostFailed as error:
            return str(error)
        finally:
            connections.close()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


@pytest.fixture(params=["ed25519", "rsa"])
def sshd(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sshd]:
    made = Sshd(tmp_path, request.param, "-n", "127.0.0.1,gpu.example.com")
    yield made
    made.close()


def test_a_host_with_a_certificate_needs_no_line_of_its_own(sshd: Sshd):
    authority = public(sshd.authority)
    for pattern in ("*", "127.0.0.*", f"[127.0.0.1]:{sshd.port}", "elsewhere,127.0.0.?"):
        sshd.names("# ours", f"@cert-authority {pattern} {authority}")
        assert sshd.told() == "in\n", pattern
    # Its key, once known, may change, as long as the authority signs it.
    sshd.names(f"[127.0.0.1]:{sshd.port} {public(sshd.user)}", f"@cert-authority * {authority}")
    assert sshd.told() == "in\n"
    # An authority for others says nothing of this host, nor does somebody else's signature.
    for line in (f"*.example.com {authority}", f"*,!127.0.0.1 {authority}"):
        sshd.names(f"@cert-authority {line}")
        assert sshd.told().startswith("its host key is not known")
    sshd.names(f"@cert-authority * {public(sshd.user)}")
    refused = "its host certificate is refused: an authority has signed it that known_hosts does"
    assert sshd.told(accept=True).startswith(refused)
    # Where its key is known, a certificate that says nothing does no harm.
    sshd.names(
        f"@cert-authority * {public(sshd.user)}", f"[127.0.0.1]:{sshd.port} {public(sshd.key)}"
    )
    assert sshd.told() == "in\n"


def test_revoked_keys_and_authorities_are_refused(sshd: Sshd):
    line = f"@cert-authority * {public(sshd.authority)}"
    for revoked in (sshd.authority, sshd.key):
        sshd.names(line, f"@revoked * {public(revoked)}")
        assert sshd.told(accept=True).startswith(f"its host key is revoked in {sshd.known}.")
    sshd.names(line, f"@revoked * {public(sshd.user)}")
    assert sshd.told() == "in\n"


@pytest.mark.parametrize(
    ("signing", "told"),
    [
        (("-n", "gpu.example.com,*.example.org"), "it is for gpu.example.com, *.example.org, not"),
        (("-n", "127.0.0.1", "-V", "20200101:20200201"), "it expired at 2020-02-01"),
        (("-n", "127.0.0.1", "-V", "20990101:20990201"), "it is valid from 2099-01-01"),
        (("-n", "127.0.0.1", "-O", "critical:x=y"), "it has options that no host's certificate"),
        (("-n", "127.0.?.1"), ""),
        ((), ""),
    ],
)
def test_a_certificate_must_be_for_the_host_and_for_now(
    tmp_path: Path, signing: tuple[str, ...], told: str
):
    sshd = Sshd(tmp_path, "ed25519", *signing)
    try:
        line = f"@cert-authority * {public(sshd.authority)}"
        sshd.names(line)
        found = sshd.told(accept=True)
        assert (
            found.startswith(f"its host certificate is refused: {told}")
            if told
            else (found == "in\n")
        )
        assert sshd.known.read_text() == f"{line}\n"
    finally:
        sshd.close()


def test_keys_of_plain_hosts_may_be_known_by_patterns_and_by_hashes(sshd: Sshd):
    name = f"[127.0.0.1]:{sshd.port}"
    for hosts in ("127.0.0.*", "*", f"other,{name}", "127.0.0.1"):
        sshd.names(f"{hosts} {public(sshd.key)}")
        assert sshd.told() == "in\n", hosts
    sshd.names(f"{name} {public(sshd.key)}")
    keygen("-H", "-f", str(sshd.known))
    assert sshd.known.read_text().startswith("|1|") and sshd.told() == "in\n"
    sshd.names(f"{name} {public(sshd.user)}")
    assert sshd.told(accept=True).startswith("its host key has CHANGED")
    sshd.names(f"127.0.0.1 {public(sshd.user)}")  # another server at another port
    assert sshd.told().startswith("its host key is not known")
    assert sshd.told(accept=True) == "in\n"
    assert sshd.known.read_text().splitlines()[1] == f"{name} {public(sshd.key)}"
