"""Asks a scheduler again that does not answer, for as long as ``--patience_s`` says."""

import time
from collections.abc import Callable
from typing import TypeVar

AGAIN_S = 2.0
Answer = TypeVar("Answer")


def patiently(ask: Callable[[], Answer], away: type[Exception], seconds: float) -> Answer:
    """What is answered; ``away`` says that there was no answer, and is raised in the end."""
    end = time.monotonic() + seconds
    is_told = False
    while True:
        try:
            return ask()
        except away as error:
            if time.monotonic() >= end:
                raise
            if not is_told:
                print(f"{error}. Asking again for {seconds:g} s.", flush=True)
            is_told = True
        time.sleep(AGAIN_S)
