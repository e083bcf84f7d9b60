"""Results that are copied from the first learner's host, over a real sshd."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cluster import networks
from tests.cluster.conftest import Frontend, wait_for
from tests.cluster.networks import HEADER, Network

pytestmark = [
    pytest.mark.skipif(bool(networks.missing()), reason=networks.missing()),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("network"),
]
COPIED = re.compile(r"Copied (\d+) files .* to logs/run(; (\d+) were there already)?\.\n")


@pytest.fixture
def there(remote: Frontend, network: Network) -> Path:
    """The folder on the first learner's host of a run that has been stopped."""
    first = network.hosts[0]
    remote.csv(HEADER, network.row("learner", first, 8001))
    assert remote.run("start").returncode == 0
    assert remote.run("stop").returncode == 0
    folder = first.home / "impala" / "logs" / "run"
    subprocess.run(["rm", "-rf", folder / "checkpoints", folder / "credentials"], check=True)
    for name in ("credentials/learner.pem", "checkpoints/best.npz", "replay/0.npy", ".lock"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    for frames in (5, 10, 15):
        (folder / "checkpoints" / f"frames-{frames:015d}.npz").write_bytes(os.urandom(1000))
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to("/etc/passwd")
    return folder


def fetched(remote: Frontend, *flags: str) -> tuple[int, int]:
    """How many files were copied, and how many were there already."""
    done = remote.run("fetch", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    match = COPIED.fullmatch(done.stdout)
    assert match, done.stdout
    return int(match[1]), int(match[3] or 0)


def test_what_is_new_is_fetched_and_no_secret(remote: Frontend, there: Path):
    assert fetched(remote) == (3, 0)
    here = remote.logdir
    assert sorted(path.name for path in (here / "checkpoints").iterdir()) == [
        "best.npz",
        "frames-000000000000015.npz",
    ]
    newest = "checkpoints/frames-000000000000015.npz"
    assert (here / newest).read_bytes() == (there / newest).read_bytes()
    assert "12345" in (here / "metrics.jsonl").read_text()
    for name in ("credentials", "replay", "link", ".lock"):
        assert not (here / name).exists()
    assert fetched(remote) == (0, 3)
    with (there / "metrics.jsonl").open("a") as file:
        file.write("{}\n")
    assert fetched(remote) == (1, 2)
    assert (here / "metrics.jsonl").read_text().endswith("{}\n")
    assert fetched(remote, "--fetch=all") == (3, 3)
    assert (here / "replay" / "0.npy").read_text() == "replay/0.npy"
    assert len(list((here / "checkpoints").iterdir())) == 4


def test_a_copy_that_was_cut_off_goes_on_where_it_stopped(
    remote: Frontend, there: Path, network: Network
):
    (there / "big").write_bytes(os.urandom(24 << 20))
    (remote.logdir / "big").write_text("the former one")
    part = remote.logdir / ".big.part"
    command = remote.command("fetch", "--patience_s=0")
    copying = subprocess.Popen(
        command, cwd=remote.folder, env=remote.env, stdout=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: part.stat().st_size > 1 << 20)
        network.freeze(network.hosts[0])
        assert "another fetch in logs/run is in progress" in remote.run("fetch").stderr
        copying.terminate()
        copying.wait()
    finally:
        network.thaw(network.hosts[0])
        copying.kill()
        copying.communicate()
    done = part.stat().st_size
    assert 0 < done < 24 << 20
    assert (remote.logdir / "big").read_text() == "the former one"
    again = remote.run("fetch")
    assert again.returncode == 0, again.stdout
    assert (remote.logdir / "big").read_bytes() == (there / "big").read_bytes()
    assert not part.exists()
