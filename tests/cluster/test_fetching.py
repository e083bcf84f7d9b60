"""Results copied piece by piece: what is asked for, and what a host's answers may do here."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cluster.backends.ssh import fetching
from cluster.backends.ssh.hosts import Hosts
from cluster.model import Host, Place
from cluster.on_host.answers import answer
from cluster.record import Listener, Record
from cluster.ssh.failures import HostFailed
from tests.cluster.slurm.full_disk import full
from user_error import UserError

HOST = Host("192.0.2.1", 22, "ann")


class There(Hosts):
    """A host whose answers are made here; some of them are changed, or fail."""

    def __init__(self) -> None:
        self.pieces: list[int] = []
        self.fails_at: int | None = None
        self.more: list[list] = []
        self.before_digest: Any = None

    def ask(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "piece":
            if request["offset"] == self.fails_at:
                raise HostFailed("the connection broke", passing=True)
            self.pieces.append(request["offset"])
        if request["do"] == "digest" and self.before_digest:
            self.before_digest()
        reply = answer(request)
        if request["do"] == "results":
            reply["files"] += self.more
        return reply


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "there" / "logs" / "run"
    folder.mkdir(parents=True)
    return folder


def fetch(there: There, run: Path, here: Path) -> int:
    place = Place(HOST, str(run.parents[1]), "python")
    record = Record("id", "logs/run", "", (), (Listener("learner-0", place, HOST.ip, 1),))
    return fetching.fetch(record, there, str(here), "newest", 0.0)


def test_a_copy_goes_on_where_it_stopped(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.setattr(fetching, "PIECE_BYTES", 1000)
    content = os.urandom(3500)
    (run / "best.npz").write_bytes(content)
    there, here = There(), tmp_path / "here"
    there.fails_at = 2000
    assert fetch(there, run, here) == 1
    assert "the connection broke.\n" in capsys.readouterr().out
    assert not (here / "best.npz").exists()
    there.fails_at = None
    # The disk has room for the rest, not for the whole once more.
    usage = shutil.disk_usage(tmp_path)._replace(free=1500)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert fetch(there, run, here) == 0
    assert there.pieces == [0, 1000, 2000, 3000]
    assert (here / "best.npz").read_bytes() == content
    assert [path.name for path in here.iterdir()] == ["best.npz"]
    assert fetch(there, run, here) == 0 and len(there.pieces) == 4


def test_a_disk_that_fills_up_ends_the_copy_in_a_line_and_it_goes_on(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    (run / "best.npz").write_bytes(b"content")
    there, here = There(), tmp_path / "here"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert fetch(there, run, here) == 1
    said = "cannot be written (No space left on device).\nGive the same command to go on where it"
    assert said in capsys.readouterr().out
    assert fetch(there, run, here) == 0 and there.pieces == [0]
    assert (here / "best.npz").read_bytes() == b"content"


def test_what_was_begun_with_another_version_is_begun_again(run: Path, tmp_path: Path):
    (run / "best.npz").write_bytes(b"the new one")
    here = tmp_path / "here"
    (here / "cluster").mkdir(parents=True)
    (here / "best.npz").write_bytes(b"the former one")
    (here / ".best.npz.part").write_bytes(b"the for")
    assert fetch(There(), run, here) == 0
    assert (here / "best.npz").read_bytes() == b"the new one"


def test_a_file_that_goes_while_they_are_listed_is_left_out(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    is_file = Path.is_file

    def looked_at(path: Path, **more: Any) -> bool:
        found = is_file(path, **more)
        if path.name == "older.npz":
            path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "is_file", looked_at)
    for name in ("newest.npz", "older.npz"):
        (run / name).write_bytes(b"content")
    assert fetch(There(), run, tmp_path / "here") == 0
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["newest.npz"]


def test_what_was_begun_of_a_file_that_is_gone_is_removed(run: Path, tmp_path: Path):
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "frames-000000000000020.npz").write_bytes(b"the newest")
    here = tmp_path / "here" / "checkpoints"
    here.mkdir(parents=True)
    (here / ".frames-000000000000010.npz.part").write_bytes(b"the new")
    (here / ".frames-000000000000020.npz.part").write_bytes(b"the new")
    assert fetch(There(), run, here.parent) == 0
    assert [path.name for path in here.iterdir()] == ["frames-000000000000020.npz"]


def test_a_file_that_changes_all_the_time_is_named_and_the_others_come(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture
):
    (run / "a.png").write_bytes(bytes(20))
    (run / "metrics.jsonl").write_bytes(b"{}\n")
    there, here = There(), tmp_path / "here"
    there.before_digest = lambda: (run / "a.png").write_bytes(os.urandom(20))
    assert fetch(there, run, here) == 1
    assert "Not copied, because they change too often: a.png." in capsys.readouterr().out
    assert [path.name for path in here.iterdir()] == ["metrics.jsonl"]


def test_a_file_that_only_grows_is_copied_as_it_was(run: Path, tmp_path: Path):
    metrics = run / "metrics.jsonl"
    metrics.write_bytes(b"{}\n")
    there, here = There(), tmp_path / "here"
    there.before_digest = lambda: metrics.open("ab").write(b"{}\n")
    assert fetch(there, run, here) == 0
    assert (here / "metrics.jsonl").read_bytes() == b"{}\n"


def test_a_folder_that_the_host_shares_is_left_as_it_is(run: Path, capsys: pytest.CaptureFixture):
    metrics, lines = run / "metrics.jsonl", ["{}\n"]
    metrics.write_text(lines[0])
    (run / "cluster").mkdir()

    class Reporting(There):
        """A host whose learner reports after its files have been listed."""

        def ask(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
            reply = super().ask(place, request)
            if request["do"] == "results":
                lines.append("{}\n")
                with metrics.open("a") as file:
                    file.write(lines[-1])
            return reply

    assert fetch(Reporting(), run, run) == 0
    assert f"its results are in {run}." in capsys.readouterr().out
    assert metrics.read_text() == "".join(lines) and list((run / "cluster").iterdir()) == []


def test_a_host_can_write_nowhere_else(run: Path, tmp_path: Path):
    (tmp_path / "stolen").write_text("x")
    there, here = There(), tmp_path / "here"
    names = ("../stolen", "/etc/passwd", "cluster/run.json", "credentials/a.pem", "x/.bashrc")
    there.more = [[name, 1, 1] for name in names]
    assert fetch(there, run, here) == 0
    assert there.pieces == [] and list(here.iterdir()) == []


def test_results_that_do_not_fit_are_not_begun(run: Path, tmp_path: Path):
    there = There()
    there.more = [["huge", 1 << 60, 1]]
    with pytest.raises(UserError, match="its disk has .* MB left"):
        fetch(there, run, tmp_path / "here")
    assert there.pieces == []


def test_what_is_only_of_use_to_resume_stays_there_also_that_of_several_agents(
    run: Path, tmp_path: Path
):
    for name in ("replay/a.npz", "agents/red/replay/a.npz", "agents/replay/metrics.jsonl"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(b"content")
    here = tmp_path / "here"
    assert fetch(There(), run, here) == 0
    copied = [str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()]
    assert copied == ["agents/replay/metrics.jsonl"]
