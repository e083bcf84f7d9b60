"""What a host must have before a run is started on it; problems as (what, how to mend it)."""

import hashlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Problem = tuple[str, str]

CODE = ("*.py", "agents", "vtrace", "environments", "transport", "impala", "cluster")
LEAST_FREE_BYTES = 2 << 30
MOST_SKEW_S = 60
# Looked for, not imported: TensorFlow would take seconds.
LACKING = """
import importlib.util, sys
lacking = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
sys.exit("it lacks " + ", ".join(lacking) if lacking else 0)
"""
SYNC = "--action=sync puts it there"


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Everything that is wrong here."""
    folder = Path(request["folder"])
    if not (folder / request["project"] / "experiment.py").exists():
        return {"problems": [(f"the project is not in {folder}", SYNC)]}
    problems = [
        *_versions(folder / request["project"], request),
        *_commands(folder, request),
        *_ports(request["ports"]),
        *_gpus(request["gpus"]),
        *_machine(folder, request),
    ]
    return {"problems": problems}


def version(project: Path) -> str:
    """A hash of the project's code."""
    digest = hashlib.sha256()
    files = [file for name in CODE for path in project.glob(name) for file in _python_files(path)]
    for file in sorted(files):
        digest.update(f"{file.relative_to(project)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _python_files(path: Path) -> Iterator[Path]:
    yield from path.rglob("*.py") if path.is_dir() else [path]


def _versions(project: Path, request: dict[str, Any]) -> Iterator[Problem]:
    if version(project) != request["version"]:
        yield f"the project in {project} is another version than here", SYNC


def _commands(folder: Path, request: dict[str, Any]) -> Iterator[Problem]:
    for python in request["pythons"]:
        try:
            done = subprocess.run(
                [folder / python, "-c", LACKING, *request["needs"]],
                capture_output=True,
                timeout=20,
                check=False,
                cwd=folder,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = getattr(error, "strerror", "") or type(error).__name__
            yield f"{python} cannot be run: {reason}", "run bin/setup there, or mend column python"
            continue
        if done.returncode:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            yield f"{python}: {''.join(last)}", "run bin/setup there"
    for command in request["commands"]:
        if not shutil.which(command):
            yield f"there is no {command}", "run bin/setup there"


def _ports(ports: list[int]) -> Iterator[Problem]:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                yield (
                    f"port {port} cannot be used: {error.strerror}",
                    "end what uses it, or choose another tf_port",
                )


def _gpus(asked: list[str]) -> Iterator[Problem]:
    numbers = {int(one) for devices in asked for one in devices.split(",") if one.isdigit()}
    if not numbers:
        return
    try:
        done = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, timeout=20, check=False
        )
        there = len(done.stdout.splitlines()) if done.returncode == 0 else 0
    except (OSError, subprocess.TimeoutExpired):
        there = 0
    for number in sorted(numbers):
        if number >= there:
            yield (
                f"GPU {number} is asked for, but nvidia-smi shows {there}",
                "mend the driver, or column cuda_visible_devices",
            )


def _machine(folder: Path, request: dict[str, Any]) -> Iterator[Problem]:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        yield f"only {free >> 20} MiB are free in {folder}", "make room: 2 GiB are wanted"
    skew = time.time() - request["now"]
    if abs(skew) > MOST_SKEW_S:
        yield f"its clock is {skew:+.0f} s off", "set it, for example with chrony"
