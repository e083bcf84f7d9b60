"""Copies of the project with tiny packages, for real runs of the programs in bin/.

The copies' lock files name small wheels in a folder, so that a whole setup takes seconds and
needs no network.
"""

import hashlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
EXTRAS = ("browser", "pettingzoo", "ray", "trackers")
LAYERS = (
    *("actor", "tensorflow-cpu", "tensorflow-gpu", "lab", "kubernetes", "test", "docs"),
    *EXTRAS,
)
BASIC_COMMANDS = (
    *("bash", "cat", "cmp", "cut", "dirname", "flock", "grep", "mkdir", "readlink", "rm"),
    *("sed", "tail", "xargs"),
)


def run(*command, cwd=None, user=None, **environment):
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        user=user,
        env=os.environ | {name: str(value) for name, value in environment.items()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def make_wheel(folder: Path, name: str, version: str = "1.0") -> str:
    """Writes an empty package's wheel and returns the line of a lock file that asks for it."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


class Copy:
    """A copy of the project whose packages are tiny wheels."""

    def __init__(self, folder: Path, wheels: Path):
        self.folder = folder
        self.wheels = wheels  # not in the folder: pip does not accept blanks in such a path
        self.requirements = folder / "requirements"

    @classmethod
    def new(cls, folder: Path, wheels: Path) -> "Copy":
        shutil.copytree(PROJECT / "bin", folder / "bin")
        shutil.copytree(PROJECT / "requirements", folder / "requirements")
        wheels.mkdir()
        copy = cls(folder, wheels)
        for layer in LAYERS:
            copy.lock(layer)
        return copy

    def lock(self, layer: str, version: str = "1.0") -> None:
        name = f"tiny_{layer.replace('-', '_')}"
        (self.requirements / f"{layer}.txt").write_text(make_wheel(self.wheels, name, version))

    def run(self, script: str, *arguments, cwd=None, user=None, **environment):
        environment = self.offline() | environment
        return run(self.folder / script, *arguments, cwd=cwd, user=user, **environment)

    def offline(self) -> dict:
        return {"PIP_NO_INDEX": 1, "PIP_FIND_LINKS": self.wheels, "PIP_CONFIG_FILE": os.devnull}

    def installed(self) -> set[str]:
        return {path.stem for path in self.folder.glob(".venv/lib/*/site-packages/tiny*.dist-info")}


@pytest.fixture
def copy(tmp_path):
    """A copy with nothing installed."""
    return Copy.new(tmp_path / "a copy", tmp_path / "wheels")


@pytest.fixture(scope="session")
def set_up_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    copy = Copy.new(folder / "a copy", folder / "wheels")
    result = copy.run("bin/setup", "--actor")
    assert result.returncode == 0, result.stderr
    return copy


@pytest.fixture
def set_up(set_up_once, tmp_path):
    """A copy in which an actor is set up."""
    folder, wheels = tmp_path / "a copy", tmp_path / "wheels"
    shutil.copytree(set_up_once.folder, folder, symlinks=True)
    shutil.copytree(set_up_once.wheels, wheels)
    copy = Copy(folder, wheels)
    assert copy.run("bin/setup", "--actor", "--quiet").returncode == 0
    return copy


@pytest.fixture
def bare_path(tmp_path):
    """A PATH with the commands of a minimal Debian without further packages."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for command in BASIC_COMMANDS:
        (folder / command).symlink_to(shutil.which(command))
    for command in ("apt-get", "dpkg", "dpkg-query"):
        (folder / command).write_text("#!/bin/bash\nexit 1\n")
        (folder / command).chmod(0o755)
    return folder
