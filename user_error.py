"""Mistakes that a user can fix, reported in one line with exit code 2 and no traceback."""

import difflib
import errno
import os
import select
import sys
from collections.abc import Callable, Iterable
from typing import TextIO

from checkout import is_checkout

STOPPED = 130  # what a program exits with after Ctrl-C
# Packages that bin/setup installs without flags, and that are imported before anything is started.
OF_SETUP = (
    *("ale_py", "cryptography", "cv2", "gymnasium", "matplotlib", "numpy", "paramiko"),
    *("psutil", "rich", "sonnet", "tensorflow", "yaml"),
)


class UserError(Exception):
    """What was given, what was expected and what to do, in one line.

    Entry points print it and exit with 2 before anything is started.
    """

    code = 2


# Of errors by which a system says that nothing more can be written.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NotWritten(UserError):
    """There was no room for what had to be written; the same command goes on once there is.

    The exit code is one of its own (EX_TEMPFAIL), so that whoever started it can tell.
    """

    code = 75


class EndedOutside(Exception):
    """Something outside of the program ended a part of it; the message is one line.

    Entry points print it without a traceback and exit with 1.
    """


def exit_code(program: str, run: Callable[[], int | None]) -> int:
    """Runs a program's main part; returns what it exits with."""
    try:
        code = run()
        sys.stdout.flush()
        return code or 0
    except (UserError, EndedOutside) as error:
        print(f"{program}: {error}", file=sys.stderr)
        code = error.code if isinstance(error, UserError) else 1
    except OSError as error:  # such as a full disk
        if isinstance(error, BrokenPipeError) and _nobody_reads(sys.stdout):
            discard(sys.stdout)
            return 1
        where = f"{error.filename}: " if error.filename else ""
        print(f"{program}: {where}{error.strerror or error}.", file=sys.stderr)
        code = UserError.code
    except ModuleNotFoundError as error:  # such as by another Python than that of .venv
        if error.name not in OF_SETUP or not is_checkout():
            raise
        here = f"{sys.executable} has no {error.name}"
        remedy = "run bin/setup, then the same with .venv/bin/python"
        print(f"{program}: {here}: {remedy}.", file=sys.stderr)
        code = UserError.code
    except KeyboardInterrupt:  # which the reader of a pipe gets as well
        code = STOPPED
    try:
        sys.stdout.flush()
    except OSError:
        discard(sys.stdout)
    return code


def _nobody_reads(output: TextIO) -> bool:
    """Whether the reader of a pipe has seen enough, as `head` does."""
    poll = select.poll()
    poll.register(output, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def discard(output: TextIO) -> None:
    """Lets what a stream still holds, and all that is written to it from now on, go nowhere.

    Otherwise Python would flush it again at exit, fail, and change the exit code.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output.fileno())
    os.close(nowhere)


def in_short(value: object) -> str:
    """A value's text in one line, which that of a space with many bounds is not; the ends of it."""
    text = " ".join(str(value).split())
    return text if len(text) <= 160 else f"{text[:100]} … {text[-50:]}"


def closest(given: str, known: Iterable[str]) -> str:
    """The known names closest to the given one, as a sentence for the end of an error message."""
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(given.lower(), names, n=3, cutoff=0.5)
    if found:
        return "Did you mean " + " or ".join(names[name] for name in found) + "?"
    some = sorted(names.values())
    return "Known names: " + ", ".join(some[:20]) + (" …" if len(some) > 20 else "") + "."
