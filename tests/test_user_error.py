"""What programs exit with: a line without a traceback for mistakes, and for Ctrl-C."""

import errno
import os
import subprocess
import sys

import pytest

from sandbox.arm import __main__ as arm
from user_error import EndedOutside, UserError, exit_code
from world_models import play


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("not so."), 2, "some: not so.\n"),
        (EndedOutside("it is gone."), 1, "some: it is gone.\n"),
        (KeyboardInterrupt(), 130, ""),
        *(
            (
                ModuleNotFoundError(f"No module named '{name}'", name=name),
                2,
                f"some: {sys.executable} has no {name}: run bin/setup, then the same with "
                ".venv/bin/python.\n",
            )
            for name in ("psutil", "rich")
        ),
        (OSError(errno.ENOSPC, "the disk is full", "a.log"), 2, "some: a.log: the disk is full.\n"),
        (OSError(errno.ENOSPC, "the disk is full"), 2, "some: the disk is full.\n"),
    ],
)
def test_what_ends_a_program_is_at_most_a_line(error, code, said, capsys):
    def fail():
        raise error

    assert exit_code("some", fail) == code
    assert capsys.readouterr().err == said
    assert (exit_code("some", lambda: 3), exit_code("some", lambda: None)) == (3, 0)


def test_the_lack_of_what_a_user_s_own_code_imports_is_shown_whole():
    def fail():
        raise ModuleNotFoundError("No module named 'mine'", name="mine")

    with pytest.raises(ModuleNotFoundError):
        exit_code("some", fail)


PRINTS = "[print(number) for number in range(100_000)]"


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(
    ("run", "code"),
    [
        (PRINTS, 1),
        (f"flags.empty_parser('some', {PRINTS!r} * 1000).parse_args(['--help'])", 0),
        ("os.kill(os.getpid(), signal.SIGINT)", 130),
        ("(_ for _ in ()).throw(BrokenPipeError(32, 'Broken pipe', 'socket'))", 2),
    ],
)
def test_a_reader_that_has_seen_enough_is_no_error(run, code, buffered):
    """As `head`; a broken pipe that is not the output's is one."""
    said = "some: socket: Broken pipe.\n" if code == 2 else ""
    assert ended(run, buffered, is_read=code == 2) == (code, said)


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)", 130, ""),
        ("(_ for _ in ()).throw(user_error.EndedOutside('it is gone.'))", 1, "some: it is gone.\n"),
    ],
)
def test_nor_is_one_that_goes_before_all_is_written(run, code, said):
    """As `tee`, which Ctrl-C ends, too."""
    assert ended(f"print('some') or {run}", "", is_read=False) == (code, said)


def ended(run: str, buffered: str, is_read: bool) -> tuple[int, str]:
    """The exit code and the errors of a program whose output goes to a pipe."""
    program = (
        "import os, signal, sys, flags, user_error;"
        f"sys.exit(user_error.exit_code('some', lambda: {run} and None))"
    )
    reader, writer = os.pipe()
    if not is_read:
        os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONUNBUFFERED": buffered},
    )
    os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("module", "part"), [(arm, "_act"), (play, "_play")])
def test_ctrl_c_ends_a_program_without_a_traceback(module, part, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, part, stop)
    assert module.main(["--level_name=CartPole-v1"]) == 130
