"""Programs that tests write."""

import shlex
import sys
from pathlib import Path


def write_python(path: Path, source: str) -> None:
    """Writes a program that this Python runs; its `#!` line could not have a path with spaces."""
    begin = f"#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} \"$0\" \"$@\"\n' '''\n"
    path.write_text(begin + source)
    path.chmod(0o755)
