"""Copies results to a folder as they come: of experiments here, or on another host over SSH."""

import io
import math
import shlex
import subprocess
import tarfile
import time
from pathlib import Path

from lab.specs.errors import shown
from lab.trials.folder import RESULT, SPEC
from trainer.storage.records import write_whole
from user_error import UserError

# What is looked at; checkpoints and events stay where they are.
ENDINGS = ("json", "jsonl", "csv", "png", "html", "log", "txt", "md")
CHANGED = 1  # what tar ends with where a file grew while it was read
# A connection that is lost ends within a minute.
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=20")


def watch(source: str, target: Path, every_s: float, once: bool) -> int:
    """Copies what is new every so many seconds, until Ctrl-C or until all of it is finished.

    A connection that is lost meanwhile is reported, and tried again.
    """
    if not 0 < every_s < math.inf:
        raise UserError(f"--every_s={every_s:g}: expected a number of seconds above 0.")
    since = 0
    while True:
        finished = False
        try:
            names, since, finished = copy(source, target, since)
            if names:
                print(f"{target}: {len(names)} file(s), such as {names[-1]}", flush=True)
        except UserError as error:
            if once or not since:
                raise
            print(error, flush=True)
        if once or finished:
            return 0
        time.sleep(every_s)


def copy(source: str, target: Path, since: int) -> tuple[list[str], int, bool]:
    """Copies files that have changed since then.

    Returns their names, the time there, and whether all experiments there are finished. Those in
    the target may be: a retry has reopened one whose result was copied before.
    """
    host, colon, folder = source.partition(":")
    if not colon or Path(source).exists():
        host, folder = "", source
    if not host and target.resolve().is_relative_to(Path(folder).resolve()):
        raise UserError(
            f"{target}: found a target inside {source}; expected one outside, or copies are copied."
        )
    if host:  # ssh begins in the home, and a quoted ~ would be a name like any other
        folder = "." if folder in ("", "~", "~/") else folder.removeprefix("~/")
    counts = " ".join(f"$(find . -name {name} | wc -l)" for name in (SPEC, RESULT))
    named = " -o ".join(f"-name '*.{ending}'" for ending in ENDINGS)
    # A file is named before it is read: it may be gone by then, which is no error here. Many are
    # written under a hidden name first: then only ctime tells when they got the other.
    command = (
        f'cd {shlex.quote(folder)} && echo "$(date +%s) {counts}" && '
        f"find . -type f ! -name '.*' \\( {named} \\) "
        f"-newerct @{max(0, since - 1)} -print0 | "
        "tar -c --null -T - --ignore-failed-read 2>/dev/null"
    )
    words = [*SSH, host, command] if host else ["sh", "-c", command]
    found = subprocess.run(words, capture_output=True, check=False)
    now, _, packed = found.stdout.partition(b"\n")
    if not packed or found.returncode not in (0, CHANGED):
        usual = f"it ended with {found.returncode}" if packed else "nothing came"
        last = found.stderr.decode(errors="replace").strip().splitlines()[-1:] or [usual]
        raise UserError(f"{source}: {last[0]}; expected a folder of experiments.")
    try:
        begun, every, finished = map(int, now.split())
    except ValueError:
        raise UserError(
            f"{source}: found {shown(now.decode(errors='replace'))} before the files; expected "
            "nothing: let ~/.bashrc there print only in terminals."
        ) from None
    try:
        return _unpack(packed, target), begun, 0 < every == finished
    except tarfile.TarError as error:
        raise UserError(f"{source}: what came is damaged ({error}).") from None


def _unpack(packed: bytes, target: Path) -> list[str]:
    """Writes the files of an archive; returns their names."""
    names = []
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive.getmembers():
            file, name = archive.extractfile(member), Path(member.name)
            if file is None or name.is_absolute() or ".." in name.parts:
                continue  # no plain file, or one that would land elsewhere
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(target / name, file.read())
            names.append(str(name))
    return names
