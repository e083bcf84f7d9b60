"""A frontend with an emulated API of Kubernetes, whose pods are processes of this machine."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.conftest import ROOT, copy_project
from tests.cluster.kubernetes.controller import Controller
from tests.cluster.kubernetes.emulator import Server


@dataclasses.dataclass
class Frontend:
    """The frontend, the emulated API, and what makes pods of Jobs."""

    folder: Path
    server: Server
    nodes: Controller

    def run(
        self, action: str, *flags: str, place: str = ".", **env: str
    ) -> subprocess.CompletedProcess[str]:
        program = str(self.folder / "run_experiment_mm_raw.py")
        config = {"KUBECONFIG": str(self.folder / "config"), "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, program, f"--action={action}", "--logdir=logs/run", *flags],
            cwd=self.folder / place,
            env={**os.environ, **config, **env},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def start(self, *flags: str) -> str:
        done = self.run("start", "--backend=kubernetes", *flags)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def states(self) -> dict[str, str]:
        printed = self.run("status", "--json").stdout
        return {row["process"]: row["state"] for row in json.loads(printed)["processes"]}

    def pod(self, name: str) -> str:
        """The process of a pod that runs."""
        [found] = [one for one in self.nodes.running if one.startswith(f"impala-run-{name}")]
        return found


@pytest.fixture
def frontend() -> Iterator[Callable[..., Frontend]]:
    made: list[Frontend] = []
    # Where the pods' user can read, too: pytest's own folders are its user's alone.
    folder = Path(tempfile.mkdtemp(prefix="impala-pods-"))
    folder.chmod(0o755)

    def make(is_real: bool = False, images: Mapping[str, Path] | None = None) -> Frontend:
        project = folder / "project"
        copy_project(project)
        for name in ("docker", "logs", ".venv"):
            if (ROOT / name).is_dir() and name == "docker":
                shutil.copytree(ROOT / name, project / name)
            else:
                (project / name).mkdir()
        if is_real:
            shutil.copy(ROOT / "experiment.py", project)
            for name in ("agents", "environments", "presets", "transport", "vtrace"):
                shutil.copytree(ROOT / name, project / name)
            levels = project / "tests" / "trainer" / "levels.py"
            levels.parent.mkdir(parents=True)
            shutil.copy(ROOT / levels.relative_to(project), levels)
        pods = folder / "pods"
        pods.mkdir()
        server = Server(pods)
        server.write_config(project / "config")
        made.append(Frontend(project, server, Controller(server, pods, project, images)))
        return made[0]

    yield make
    for one in made:
        one.run("stop")
        one.nodes.close()
        one.server.close()
    shutil.rmtree(folder)
