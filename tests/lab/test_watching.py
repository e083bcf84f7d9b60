"""Results that are copied as they are written, also over SSH from a network namespace."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.actions import watching
from lab.commands import main
from tests import namespaces
from tests.namespaces import Bridge, make_key
from user_error import UserError

MISSING = namespaces.missing(namespaces.SSHD, "ssh-keygen")
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


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
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


@pytest.fixture
def there(tmp_path: Path) -> Path:
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "spec.json").write_text("{}" * 2000)
    return folder


def test_what_is_there_is_copied(there: Path, tmp_path: Path):
    names, since, finished = watching.copy(str(there), tmp_path / "here", 0)
    assert names == ["spec.json"] and since > 0 and not finished
    assert watching.copy(str(there), tmp_path / "here", since + 60)[0] == []


def test_a_file_that_was_written_before_the_last_look_and_named_after_it_is_copied(
    there: Path, tmp_path: Path
):
    hidden = there / ".index.html.tmp"
    hidden.write_text("<p>")
    os.utime(hidden, (0, 0))  # long before
    _, since, _ = watching.copy(str(there), tmp_path / "here", 0)
    hidden.rename(there / "index.html")
    assert "index.html" in watching.copy(str(there), tmp_path / "here", since)[0]


def test_a_target_inside_its_source_is_refused(there: Path, tmp_path: Path, capsys):
    link = tmp_path / "link"
    link.symlink_to(there)
    for source, target in ((there, there / "copy"), (link, there / "copy"), (there, link / "a/b")):
        assert main(["watch", str(source), str(target), "--once"]) == 2
        said = capsys.readouterr().err
        assert f"lab: {target}: found a target inside {source}; expected one outside" in said
        assert said.count("\n") == 1
    assert [path.name for path in there.iterdir()] == ["spec.json"]


def test_a_benchmarks_scores_are_copied_and_weights_are_not(there: Path, tmp_path: Path):
    for name in ("mine_benchmark.md", "best.npz"):
        (there / name).write_text("")
    names, _, _ = watching.copy(str(there), tmp_path / "here", 0)
    assert sorted(names) == ["mine_benchmark.md", "spec.json"]


def test_what_a_retry_has_reopened_is_watched_until_it_is_finished_again(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    here, result = tmp_path / "here", there / "experiment_data.json"
    result.write_text("{}")
    assert watching.watch(str(there), here, 1.0, once=False) == 0
    result.unlink()

    def finish(_: float) -> None:
        assert (here / result.name).read_text() == "{}"
        result.write_text('{"winner": 1}')

    monkeypatch.setattr(watching.time, "sleep", finish)
    assert watching.watch(str(there), here, 1.0, once=False) == 0
    assert (here / result.name).read_text() == '{"winner": 1}'


@pytest.mark.parametrize(
    ("folder", "begins"),
    [
        ("~/impala/data", "cd impala/data && "),
        ("~", "cd . && "),
        ("my data", "cd 'my data' && "),
        ("/data", "cd /data && "),
    ],
)
def test_a_home_on_another_host_is_where_ssh_begins(
    folder: str, begins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[list[str]] = []

    def run(words: list[str], **_: Any) -> Any:
        asked.append(words)
        return subprocess.CompletedProcess(words, 255, b"", b"no route")

    monkeypatch.setattr(watching.subprocess, "run", run)
    with pytest.raises(UserError, match="no route"):
        watching.copy(f"far:{folder}", tmp_path, 0)
    [(*_, host, command)] = asked
    assert host == "far" and command.startswith(begins)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda packed: packed[:1024], 255, "it ended with 255"),  # cut off between two files
        (lambda packed: packed[:700], 0, "what came is damaged (unexpected end of data)"),
        (lambda packed: b"Welcome!\n" + packed, 0, 'found "Welcome!" before the files'),
        (lambda packed: packed, 1, ""),  # a file has grown meanwhile
    ],
)
def test_what_comes_damaged_is_one_line_and_is_tried_again(
    there: Path, tmp_path: Path, change: Any, code: int, words: str, monkeypatch
):
    run = subprocess.run

    def broken(*arguments: Any, **more: Any) -> Any:
        done = run(*arguments, **more)
        return subprocess.CompletedProcess(done.args, code, change(done.stdout), done.stderr)

    monkeypatch.setattr(watching.subprocess, "run", broken)
    if not words:
        assert watching.copy(str(there), tmp_path / "here", 0)[0] == ["spec.json"]
        return
    with pytest.raises(UserError) as error:
        watching.copy(str(there), tmp_path / "here", 0)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf"])
def test_an_interval_that_is_none_is_refused(there: Path, tmp_path: Path, seconds: str, capsys):
    assert main(["watch", str(there), str(tmp_path / "here"), f"--every_s={seconds}"]) == 2
    assert capsys.readouterr().err == (
        f"lab: --every_s={seconds}: expected a number of seconds above 0.\n"
    )
