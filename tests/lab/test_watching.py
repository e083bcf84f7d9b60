"""Results come from another host as they are written: a network namespace with an SSH server."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import namespaces
from tests.namespaces import Bridge, make_key

MISSING = namespaces.missing(namespaces.SSHD, "ssh-keygen")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
PORT = 2222


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    made = Bridge()
    try:
        made.add()
        yield made
    finally:
        made.close()


def ssh_to_it(bridge: Bridge, folder: Path) -> str:
    """A folder with an ssh that knows the host ``far``, as a configuration of one's own would."""
    make_key(folder / "me")
    [host] = bridge.hosts
    bridge.start_sshd(host, PORT, folder, f"AuthorizedKeysFile {folder / 'me.pub'}")
    config, programs = folder / "config", folder / "programs"
    config.write_text(
        f"Host far\n HostName {host.ip}\n Port {PORT}\n IdentityFile {folder / 'me'}\n"
        " IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n"
        " LogLevel ERROR\n"
    )
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
    (programs / "ssh").chmod(0o755)
    return str(programs)


def test_results_of_another_host_are_copied_as_they_come(lab, bridge, tmp_path):
    path = ssh_to_it(bridge, tmp_path)
    there, here = tmp_path / "there" / "mine_2026", tmp_path / "here"
    there.mkdir(parents=True)
    (there / "spec.json").write_text("{}")
    (there / "best.npz").write_text("weights")
    process = lab.start("watch", f"far:{there.parent}", str(here), "--every_s=0.2", path=path)
    assert process.stdout and "1 file(s), such as mine_2026/spec.json" in process.stdout.readline()
    bridge.hosts[0].unplug()
    line = process.stdout.readline()
    assert line.startswith("far:") and "expected a folder of experiments" in line
    (there / "index.html").write_text("<p>")
    bridge.hosts[0].plug()
    until = time.monotonic() + 60
    while not (here / "mine_2026" / "index.html").exists():
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.1)
    (there / "experiment_data.json").write_text("{}")  # it is finished
    assert process.wait(60) == 0
    names = sorted(one.name for one in here.rglob("*.*"))
    assert names == ["experiment_data.json", "index.html", "spec.json"]
    refused = lab.start("watch", f"far:{tmp_path}/nowhere", str(here), path=path)
    said, _ = refused.communicate()
    assert refused.returncode == 2 and "nowhere" in said and said.count("\n") == 1
