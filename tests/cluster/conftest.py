"""A project folder with a quick experiment.py, and its frontend."""

import contextlib
import dataclasses
import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import pytest

if TYPE_CHECKING:
    from tests.cluster.networks import Network

Found = TypeVar("Found")
ROOT = Path(__file__).parents[2]
# What the frontend needs: itself, and the settings of every package and algorithm.
PROJECT = (
    "run_experiment_mm_raw.py",
    "bin",
    "user_error.py",
    "checkout.py",
    "credentials.py",
    "flags.py",
    "algorithms",
    "cluster",
    "trainer",
)


def copy_project(folder: Path) -> None:
    """The frontend's own files, and a stand-in for experiment.py."""
    folder.mkdir(parents=True)
    for name in PROJECT:
        copy_code(ROOT / name, folder / name)
    shutil.copy(ROOT / "tests" / "cluster" / "stand_in.py", folder / "experiment.py")


def copy_code(source: Path, target: Path) -> None:
    """Copies a file or a folder, compiled code as well: it stays valid with its sources' times."""
    if source.is_dir():
        half_written = shutil.ignore_patterns("*.pyc.*")  # by another process
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=half_written)
    else:
        shutil.copy2(source, target)


# A pause after a slow look is bounded: what is slow because it waits leaves the cores to others.
LONGEST_PAUSE_S = 2.0


def wait_for(
    condition: Callable[[], Found | Literal[False]], seconds: float = 60.0, every: float = 0.1
) -> Found:
    """Waits until there is something to find; what cannot be read yet is not there yet.

    A look may run a whole frontend, on cores that what is waited for needs, too: so it has at most
    a third of the time, and the wait may last for up to two looks longer than without pauses.
    """
    end = time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        with contextlib.suppress(OSError, ValueError, KeyError):
            if found := condition():
                return found
        looked_s = time.monotonic() - begun
        time.sleep(max(every, min(2 * looked_s, LONGEST_PAUSE_S)))
    raise AssertionError("did not happen in time")


@dataclasses.dataclass
class Frontend:
    """Runs the frontend in its project folder, with a tmux server of its own."""

    folder: Path
    env: dict[str, str]
    flags: list[str] = dataclasses.field(default_factory=list)

    @property
    def logdir(self) -> Path:
        return self.folder / "logs" / "run"

    def csv(self, *lines: str) -> None:
        (self.folder / "hosts.csv").write_text("\n".join(lines) + "\n")

    def command(self, action: str, *flags: str) -> list[str]:
        program = str(self.folder / "run_experiment_mm_raw.py")
        own = ["--logdir=logs/run", "--workers_csv_path=hosts.csv", "--notensorboard"]
        return [sys.executable, program, f"--action={action}", *own, *self.flags, *flags]

    def run(self, action: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(action, *flags),
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", *words], env=self.env, capture_output=True, text=True, check=False
        )
        return done.stdout

    def processes(self) -> list[str]:
        """Command lines that run in this project folder, whoever started them."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(self.folder) in line and "tmux" not in line.split(" ")[0]:
                found.append(line)
        return found


@pytest.fixture
def frontend(tmp_path: Path) -> Iterator[Frontend]:
    folder = tmp_path / "project"
    copy_project(folder)
    (tmp_path / "tmux").mkdir()
    env = {**os.environ, "TMUX_TMPDIR": str(tmp_path / "tmux"), "TERM": "xterm"}
    env.pop("TMUX", None)
    made = Frontend(folder, env)
    yield made
    if (made.logdir / "cluster" / "run.json").exists():
        made.run("stop", "--stop_grace_s=0")
    made.tmux("kill-server")


@pytest.fixture(scope="module")
def network() -> "Iterator[Network]":
    """Four hosts."""
    from tests.cluster.networks import Network

    made = Network()
    try:
        for _ in range(4):
            made.add_host()
        yield made
    finally:
        sockets = [f"/tmp/tmux-{pwd.getpwnam(host.user).pw_uid}" for host in made.hosts]
        made.close()
        for folder in sockets:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def remote(frontend: Frontend, network: "Network") -> Iterator[Frontend]:
    """A frontend whose user knows the four hosts."""
    network.known_hosts.unlink(missing_ok=True)
    for host in network.hosts:
        network.remember(host)
    frontend.env["HOME"] = str(network.home)
    frontend.flags = [
        f"--mpirun_network={network.network}",
        "--connect_timeout_s=10",
        "--patience_s=5",
    ]
    yield frontend
    for host in network.hosts:
        network.mend(host)


def sockets(frontend: Frontend) -> list[Path]:
    """Of the run's connections that were logged in by password."""
    run_id = json.loads((frontend.logdir / "cluster" / "run.json").read_text())["run_id"]
    return list(Path("/tmp").glob(f"impala-ssh-{run_id}-*"))
