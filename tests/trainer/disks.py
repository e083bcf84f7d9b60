"""Simulates disks that fill up."""

import contextlib
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[str], None]]:
    """Makes the folder a disk of 8 KiB, as root only may; call what it gives with another size."""

    def resize(size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)

    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", folder], check=True)
    try:
        yield resize
    finally:
        subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def files_limited_to(size):
    """Makes files end at ``size`` bytes: writes beyond it fail in part, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Full(OSError):
    """The disk is full."""


def break_at(monkeypatch, step):
    """Lets the ``step``-th call fail that changes the disk; a write is done by half."""
    calls = [0]

    def breaking(name):
        real = getattr(os, name)

        def call(*arguments):
            calls[0] += 1
            if calls[0] == step and name == "pwrite":
                file, data, offset = arguments
                real(file, data[: len(data) // 2], offset)
            if calls[0] >= step:
                raise Full
            return real(*arguments)

        monkeypatch.setattr(os, name, call)

    for name in ("pwrite", "fsync", "replace"):
        breaking(name)
