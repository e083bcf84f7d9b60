"""What a host must have before a run starts on it; problems as (problem, how to fix it)."""

import hashlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.on_host import states, windows

Problem = tuple[str, str]

CODE = (
    "*.py",
    "agents",
    "algorithms",
    "cluster",
    "environments",
    "presets",
    "zoo",
    "trainer",
    "transport",
    "vtrace",
    "world_models",
)
LEAST_FREE_BYTES = 2 << 30
# How long each program may take that is run for a check.
WITHIN_S = {"python": 20.0, "nvidia-smi": 20.0, "busctl": 5.0}
# Not imported: TensorFlow would take seconds. Its CPU-only package has another name, which does not
# do where GPUs are asked for.
LACKING = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
wrong = []
for name, wanted in json.loads(sys.argv[1]).items():
    found = {}
    for known in (name, name + "-cpu"):
        try:
            found[known] = version(known)
        except PackageNotFoundError:
            pass
    there = next(iter(found.values()), "")
    if not found:
        wrong.append(f"it does not have {name}")
    elif wanted not in ("", there):
        wrong.append(f"it has {name} {there}, expected {wanted}")
    elif sys.argv[2] and name not in found:
        wrong.append(f"its {name}-cpu uses no GPU; bin/setup --gpu brings one that does")
sys.exit(", ".join(wrong) or 0)
"""
SYNC = "copy it with --action=sync"


def check(request: dict[str, Any]) -> dict[str, Any]:
    """All problems of this host, and its time."""
    folder = Path(request["folder"])
    project = folder / request["project"]
    if (project / "experiment.py").exists():
        problems = [
            *_versions(project, request),
            *_python(folder, request),
            *_commands(request),
            *_ports(request["ports"]),
            *_gpus(_devices(request)),
            *_disk(folder, "column remote_dir"),
            *_run_folder(folder, Path(request["records"])),
            *_others(Path(request["records"]), request["replaced_run"]),
            *_session(request["tmux"], request["replaced_run"]),
            *_logout(),
        ]
    else:
        problems = [(f"the project is not in {folder}", SYNC)]
    return {"problems": problems, "now": time.time()}


def version(project: Path, names: list[str]) -> str:
    """A hash of the code in these files and folders of the project."""
    digest = hashlib.sha256()
    paths = [project / name for name in names if (project / name).exists()]
    files = [file for path in paths for file in _python_files(path) if is_kept(file, project)]
    for file in sorted(files):
        digest.update(f"{file.relative_to(project)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def is_kept(path: Path, project: Path) -> bool:
    """Whether it is the project's: not an editor's, such as links by which Emacs locks files."""
    is_hidden = any(name.startswith(".") for name in path.relative_to(project).parts)
    return (path.is_file() or path.is_dir()) and not is_hidden


def _python_files(path: Path) -> Iterator[Path]:
    found = path.rglob("*.py") if path.is_dir() else [path]
    yield from (one for one in found if one.is_file())


def _versions(project: Path, request: dict[str, Any]) -> Iterator[Problem]:
    if version(project, request["code"]) != request["version"]:
        yield f"the project in {project} differs from the version here", SYNC


def program(folder: str, python: str) -> str:
    """The path of a Python: below the folder, or in PATH if it is only a name."""
    return os.path.join(folder, python) if "/" in python else python


def _python(folder: Path, request: dict[str, Any]) -> Iterator[Problem]:
    python = request["python"]
    try:
        done = subprocess.run(
            [
                program(request["folder"], python),
                *("-c", LACKING, json.dumps(request["packages"]), " ".join(_devices(request))),
            ],
            capture_output=True,
            timeout=WITHIN_S["python"],
            check=False,
            cwd=folder,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", "") or type(error).__name__
        yield f"{python} cannot be run: {reason}", "run bin/setup there, or fix column python"
        return
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        yield f"{python}: {''.join(last)}", "run bin/setup there"


def _commands(request: dict[str, Any]) -> Iterator[Problem]:
    for command in request["commands"]:
        if not shutil.which(command):
            extra = " --extra=vnc" if command == "Xtigervnc" else ""
            yield f"there is no {command}", f"run bin/setup{extra} there"


def _ports(ports: list[int]) -> Iterator[Problem]:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                yield (
                    f"port {port} cannot be used: {error.strerror}",
                    "end the process that uses it, or choose another tf_port",
                )


def _devices(request: dict[str, Any]) -> list[str]:
    """The GPUs that are asked for."""
    asked = {one for devices in request["gpus"] for one in devices.split(",")}
    return sorted(asked - {"", "-1"})


def _gpus(wanted: list[str]) -> Iterator[Problem]:
    if not wanted:
        return
    there = _listed_gpus()
    count = sum(line.startswith("GPU ") for line in there.splitlines())
    for one in wanted:
        if int(one) >= count if one.isdigit() else one not in there:
            yield (
                f"GPU {one} is requested, but nvidia-smi lists {count}",
                "fix the driver, or column cuda_visible_devices",
            )


def _listed_gpus() -> str:
    """What nvidia-smi lists; with a driver that hangs it cannot end, and is not waited for."""
    command = ["nvidia-smi", "--list-gpus"]
    try:
        asked = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return ""
    try:
        there, _ = asked.communicate(timeout=WITHIN_S["nvidia-smi"])
    except subprocess.TimeoutExpired:
        asked.kill()
        return ""
    return there if asked.returncode == 0 else ""


def _run_folder(project: Path, records: Path) -> Iterator[Problem]:
    """The run's folder, or its nearest parent, if it is on another disk."""
    there = next(one for one in records.parents if one.exists())
    if there.stat().st_dev != project.stat().st_dev or not os.access(there, os.W_OK):
        yield from _disk(there, "--logdir")


def _disk(folder: Path, flag: str) -> Iterator[Problem]:
    if not os.access(folder, os.W_OK):
        yield f"{folder} cannot be written", f"fix its permissions, or {flag}"
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        yield f"only {free >> 20} MiB are free in {folder}", "make room: 2 GiB are needed"


def _others(records: Path, replaced: str) -> Iterator[Problem]:
    """Another frontend's run in this one's folder: each would replace the other's files."""
    for name, pid in list(states.of_other_runs(records, [replaced]).items())[:1]:
        yield (
            of_another_run(name, pid, records),
            "end that with --action=stop where it was started, or by hand there (kill "
            f"{pid}), or give another --logdir",
        )


def of_another_run(name: str, pid: int, records: Path) -> str:
    """The problem of a process that is in the way."""
    return f"{name} of another run is running in {records.parent} (process {pid})"


def _session(name: str, replaced: str) -> Iterator[Problem]:
    in_the_way = windows.in_the_way(name, replaced)
    if in_the_way:
        yield in_the_way, "end that run with --action=stop, or give another --tmux_sess"


LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")


def _logout() -> Iterator[Problem]:
    """A login manager that ends a user's processes, tmux included, with the last login."""
    if os.geteuid() == 0 or not shutil.which("busctl"):
        return
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
        asked = ["busctl", "get-property", *LOGIND, "KillUserProcesses"]
        done = subprocess.run(
            asked, capture_output=True, text=True, timeout=WITHIN_S["busctl"], check=False
        )
    except (KeyError, OSError, subprocess.TimeoutExpired):  # a container's user may have no name
        return
    if done.stdout.strip() == "b true" and not Path("/var/lib/systemd/linger", user).exists():
        yield (
            "it ends all processes of a user at logout (KillUserProcesses=yes)",
            f"run there: loginctl enable-linger {user}",
        )
