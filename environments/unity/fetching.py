"""Fetches packages of npm once, and keeps what is needed of them."""

import base64
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from user_error import UserError

SAYS_EVERY_S = 5.0
PREFIX = ".fetching-"  # of folders that a killed process may leave
CACHE = "npm"  # of npm itself, in such a folder
TOP = "package"  # the one folder of npm's archives


class Package(NamedTuple):
    """A package of npm, of which some files are kept."""

    name: str
    version: str
    sha512: str  # base64, as npm writes it
    megabytes: int
    kept: tuple[str, ...]  # files and folders


def fetched(package: Package, what: str, say: Callable[[str], None]) -> Path:
    """The folder with what is kept of the package; `what` needs it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "impala" / "unity"
    folder = cache / f"{package.name}-{package.version}"
    if folder.is_dir():
        return folder
    if shutil.which("npm") is None:
        raise UserError(
            f"--level_name: {what} is a package of npm, which is not installed here: "
            "install Debian's npm, as bin/setup --extra=unity does."
        )
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache):
            if not folder.is_dir():
                _fetch(package, what, folder, say)
    except (OSError, tarfile.TarError) as error:
        raise UserError(
            f"--level_name: {what} could not be fetched to {folder}: {error}."
        ) from None
    return folder


def _fetch(package: Package, what: str, folder: Path, say: Callable[[str], None]) -> None:
    """Makes the folder, whole or not at all."""
    for left in folder.parent.glob(f"{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=PREFIX) as temporary:
        archive = _packed(package, what, Path(temporary), say)
        with open(archive, "rb") as file:
            found = base64.b64encode(hashlib.file_digest(file, "sha512").digest()).decode()
        if found != package.sha512:
            raise UserError(
                f"--level_name: {what}: the sha512 of npm's {package.name} is {found}, expected "
                f"{package.sha512}; it was not used. Try again."
            )
        with tarfile.open(archive) as tar:
            tar.extractall(temporary, members=_kept(tar, package))
        os.replace(Path(temporary) / TOP, folder)


def _packed(package: Package, what: str, temporary: Path, say: Callable[[str], None]) -> Path:
    """The package's archive, which npm's own client fetches; says how far it is."""
    # With a cache of its own, whose size shows how far it is, and which goes with the folder.
    command = ["setpriv", "--pdeathsig", "KILL", "--", "npm", "pack"]
    command += [f"{package.name}@{package.version}", "--ignore-scripts", "--silent"]
    command += ["--pack-destination", str(temporary), "--cache", str(temporary / CACHE)]
    say(f"fetching {what}, {package.megabytes} MB, with npm; this is done once")
    npm = subprocess.Popen(
        command,
        cwd=temporary,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        told = _waited_for(npm, what, package, temporary, say)
    finally:
        if npm.poll() is None:
            os.killpg(npm.pid, signal.SIGKILL)
            npm.wait()
    archives = list(temporary.glob("*.tgz"))
    if npm.returncode or not archives:
        reason = " ".join(told.split()) or f"npm ended with exit code {npm.returncode}"
        raise UserError(
            f"--level_name: {what}: npm could not fetch {package.name} ({reason[:200]}). "
            f"Try npm view {package.name} version."
        )
    return archives[0]


def _waited_for(
    npm: subprocess.Popen[str],
    what: str,
    package: Package,
    temporary: Path,
    say: Callable[[str], None],
) -> str:
    while True:
        try:
            return npm.communicate(timeout=SAYS_EVERY_S)[1]
        except subprocess.TimeoutExpired:
            say(f"{what}: {_size(temporary / CACHE) // 10**6} of {package.megabytes} MB")


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _kept(tar: tarfile.TarFile, package: Package) -> Iterator[tarfile.TarInfo]:
    kept = [f"{TOP}/{one}" for one in package.kept]
    for member in tar:
        is_kept = any(member.name == one or member.name.startswith(f"{one}/") for one in kept)
        if is_kept and member.isfile() and ".." not in member.name:
            yield member


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Waits for other processes that fetch."""
    with open(cache / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
