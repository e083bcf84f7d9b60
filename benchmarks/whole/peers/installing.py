"""A Python environment for each peer, set up once, outside of the project."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from benchmarks.tools.common import progress
from benchmarks.whole.peers.known import Peer
from user_error import UserError

DONE = "installed.txt"
TELL_EVERY_S = 30.0


def folder_for(peer: Peer) -> Path:
    """Where the peer is installed; another one for every other list of packages."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kind = peer.packages.read_bytes() + sys.version.encode()
    return cache / "impala" / "peers" / f"{peer.key}-{hashlib.sha256(kind).hexdigest()[:12]}"


def installed(peer: Peer) -> Path:
    """The peer's Python; installs it first where that has not been done."""
    folder = folder_for(peer)
    python = folder / "venv" / "bin" / "python"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made ({error.strerror}).") from None
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two benchmarks started at once set up one after another
        if not (folder / DONE).exists():
            _install(peer, folder, python)
    return python


def _install(peer: Peer, folder: Path, python: Path) -> None:
    log = folder / "install.log"
    progress(f"installing {peer.name} into {folder}, once; this may take many minutes")
    shutil.rmtree(folder / "venv", ignore_errors=True)
    with open(log, "wb") as out:
        for command in (
            [sys.executable, "-m", "venv", str(folder / "venv")],
            [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
             "--progress-bar", "off", "--requirement", str(peer.packages)],
        ):  # fmt: skip
            done = threading.Event()
            teller = threading.Thread(target=_tell, args=(log, done), daemon=True)
            teller.start()
            status = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False
            ).returncode
            done.set()
            teller.join()
            if status:
                last = (_lines(log) or ["no output"])[-1]
                raise UserError(f"{peer.name} could not be installed: {last} ({log} has it all).")
    shutil.copy(peer.packages, folder / DONE)


def _tell(log: Path, done: threading.Event) -> None:
    while not done.wait(TELL_EVERY_S):
        progress(f"still installing: {(_lines(log) or [''])[-1][:100]}")


def _lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").strip().splitlines()
