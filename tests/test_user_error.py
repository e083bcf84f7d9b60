"""What programs exit with: a line without a traceback for mistakes, and for Ctrl-C."""

import errno

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
        (OSError(errno.ENOSPC, "the disk is full", "a.log"), 2, "some: a.log: the disk is full.\n"),
        (OSError(errno.ENOSPC, "the disk is full"), 2, "some: the disk is full.\n"),
    ],
)
def test_what_ends_a_program_is_at_most_a_line(error, code, said, capsys):
    def fail():
        raise error

    assert exit_code("some", fail) == code
    assert capsys.readouterr().err == said
    assert exit_code("some", lambda: 3) == 0


@pytest.mark.parametrize(("module", "part"), [(arm, "_act"), (play, "_play")])
def test_ctrl_c_ends_a_program_without_a_traceback(module, part, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, part, stop)
    assert module.main(["--level_name=CartPole-v1"]) == 130
