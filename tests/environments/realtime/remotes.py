"""Starts remotes for tests, as a user does."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from environments.realtime.keeping import parse_announcement
from environments.realtime.link import Address

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "environments.remote", "serve")
REFLEX = "tests.environments.realtime.worlds:Reflex"
REWARDING = "tests.environments.realtime.worlds:Rewarding"
ECHO = "tests.environments.realtime.worlds:Echo"
SLOW = "tests.environments.realtime.worlds:Slow"
STUCK = "tests.environments.realtime.worlds:Stuck"


class Remote(NamedTuple):
    """A running remote."""

    process: subprocess.Popen
    address: Address
    password_file: str


@contextlib.contextmanager
def remote(*flags: str, inside: Callable[..., list[str]] | None = None) -> Iterator[Remote]:
    """A remote with these flags, perhaps ``inside`` of a namespace; ended at the end."""
    command = inside(*COMMAND, *flags) if inside else [*COMMAND, *flags]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield Remote(process, *parse_announcement(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def refusal(*flags: str, **environment: str) -> str:
    """What a remote prints that does not start."""
    done = subprocess.run(
        [*COMMAND, *flags], check=False, cwd=ROOT, capture_output=True, text=True, timeout=60,
        env=environment or None,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    return done.stderr.strip()


def await_end(process: psutil.Process) -> None:
    """Waits until a process has ended, whose parent was killed; nobody may collect it."""
    until = time.monotonic() + 60
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until
            time.sleep(0.02)
