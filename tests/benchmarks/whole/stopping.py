"""Measurements that are stopped or killed on their way, without anything being measured."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainer.machine.launching import PROJECT


def stopped_at(number: int, answer: Any) -> Callable[..., Any]:
    """Stands for a measurement: its call of that number is stopped by Ctrl-C."""
    calls: list[None] = []

    def measured(*_: Any) -> Any:
        calls.append(None)
        if len(calls) == number:
            raise KeyboardInterrupt
        return answer

    return measured


@contextlib.contextmanager
def killed(code: str, folder: Path) -> Iterator[str]:
    """The first line of a benchmark in a process of its own, which is killed after the block."""
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as benchmark:
        try:
            assert benchmark.stdout
            yield benchmark.stdout.readline().strip()
        finally:
            benchmark.kill()
