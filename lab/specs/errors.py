"""How mistakes in specs are reported."""

import json
from collections.abc import Iterable
from typing import Any, NoReturn

from user_error import UserError, closest

LONGEST = 60


def refuse(where: str, found: Any, expected: str) -> NoReturn:
    """Raises the error of one value: its file and path of keys, what it is, what it should be."""
    end = "" if expected.endswith((".", "?")) else "."
    raise UserError(f"{where}: found {shown(found)}; expected {expected}{end}")


def refuse_key(where: str, known: Iterable[str]) -> NoReturn:
    """Raises the error of a key that does not exist."""
    name = where.rpartition(".")[2]
    raise UserError(f"{where}: found the key {name}; expected a known key. {closest(name, known)}")


def shown(value: Any) -> str:
    """A value as JSON has it, shortened."""
    text = json.dumps(value, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
