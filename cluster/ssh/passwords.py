"""Passwords of hosts: from the CSV, an environment variable or a prompt; never written anywhere."""

import getpass
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster.model import Host
from cluster.options import Options
from user_error import UserError


class Passwords:
    """The password of each host, if it has one."""

    def __init__(self, given: Mapping[Host, str], options: Options):
        self._given = dict(given)
        self._for_others = _from_environment(options.ssh_password_env)
        if options.ask_ssh_password and not self._for_others:
            self._for_others = _from_prompt()

    def of(self, host: Host, is_jump: bool = False) -> str | None:
        """A host's password; where the CSV has none, the one for all others but jump hosts.

        Those may well be somebody else's, who would learn the password of every host behind them.
        """
        return self._given.get(host) or ("" if is_jump else self._for_others) or None

    def __repr__(self) -> str:
        return "Passwords"


def _from_environment(name: str) -> str:
    if not name:
        return ""
    # Removed, so that no process started from here inherits it.
    password = os.environ.pop(name, "")
    if not password:
        # The name is not shown: some users give the password itself.
        raise UserError(
            "--ssh_password_env: the environment has no variable of that name, or it is empty. "
            "Name an exported variable that holds the password."
        )
    return password


def _from_prompt() -> str:
    try:
        return getpass.getpass("SSH password for hosts without one in the CSV: ")
    except EOFError:
        raise UserError(
            "--ask_ssh_password: there is no terminal to ask on. Run it in a terminal, "
            "or give --ssh_password_env."
        ) from None


def warn_if_readable(path: Path) -> None:
    """Warns if others can read a file with passwords."""
    if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        print(
            f"warning: {path} holds passwords and can be read by other users; run chmod 600 on it.",
            file=sys.stderr,
        )
