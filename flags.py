"""Command-line flags made from the fields of a dataclass: help, ranges and parsing.

A field made by ``setting`` defines everything about its flag.
"""

import argparse
import dataclasses
import difflib
import math
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from checkout import typed
from user_error import UserError, discard


def setting(
    default: Any,
    group: str,
    text: str,
    *,
    choices: Sequence[str] | None = None,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
) -> Any:
    """A field for one flag: its default, the group it is listed in, its help and its range."""
    return dataclasses.field(
        default=default,
        metadata={
            "group": group,
            "help": text,
            "choices": choices,
            "least": least,
            "most": most,
            "above": above,
        },
    )


def parser_of(
    definitions: Sequence[dataclasses.Field], program: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """A command line with a flag for each definition, in their groups."""
    parser = empty_parser(program, description, examples)
    groups: dict[str, Any] = {}
    for field in definitions:
        name = field.metadata["group"]
        if name not in groups:
            groups[name] = parser.add_argument_group(name)
        _add_flag(groups[name], field)
    return parser


def empty_parser(program: str, description: str, examples: str = "") -> "Parser":
    """A command line without flags yet."""
    return Parser(
        prog=with_this_python(program),
        description=with_this_python(description),
        epilog=with_this_python(examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def with_this_python(text: str) -> str:
    """Commands as they can be typed here: another `python` may be missing, or lack the packages."""
    return re.sub(r"(?<![\w/.])python(?= (-m|\w+\.py) )", lambda _: typed(sys.executable), text)


def parse(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    defaults: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The value of each flag of a parser; ``UserError`` names a flag that it does not know.

    ``defaults`` replace those of the definitions.
    """
    parser.set_defaults(**(defaults or {}))
    known, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        raise UserError(_unknown_flag(unknown[0], vars(known)))
    return vars(known)


def check_ranges(settings: Any) -> None:
    """Refuses values that their definitions do not allow."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        wrong = problem_with(field, value)
        if wrong:
            raise UserError(f"--{field.name}={text_of(value)}: {wrong}.")


def value_of(field: dataclasses.Field, given: Any) -> Any:
    """A value from a file as the flag would take it, or as it is if the flag would not."""
    kind = kind_of(field)
    if isinstance(given, bool) and {"on", "off"} <= set(field.metadata["choices"] or ()):
        return "on" if given else "off"  # as YAML reads these words
    if not isinstance(given, (str, int, float)) or (kind is str and isinstance(given, bool)):
        return given
    try:
        return CONVERTERS[kind](text_of(given))
    except ValueError:
        return given


def problem_with(field: dataclasses.Field, value: Any) -> str:
    """What a value should have been, or "" if its definition allows it."""
    if value is None and field.default is None:
        return ""
    kind, choices = kind_of(field), field.metadata["choices"]
    if not _is_a(kind, value):
        return f"expected {KINDS[kind]}"
    if choices and value not in choices:
        return f"expected {' or '.join(choices)}"
    return _problem_with_number(field.metadata, value) if kind in (int, float) else ""


def near(given: str, known: Iterable[str]) -> str:
    """Names close to the given one as a sentence to append, or ""."""
    found = difflib.get_close_matches(given, list(known), n=2)
    return f" Did you mean {' or '.join(found)}?" if found else ""


class Parser(argparse.ArgumentParser):
    """Answers a wrong flag with a ``UserError``, which is one line; its help may go to `head`."""

    def print_help(self, file: Any = None) -> None:
        try:
            super().print_help(file)
            sys.stdout.flush()
        except BrokenPipeError:
            discard(sys.stdout)

    def error(self, message: str) -> Any:
        told = message.replace("ignored explicit argument", "takes no value: leave out")
        raise UserError(f"{told}. --help lists all flags.")


def _add_flag(group: Any, field: dataclasses.Field) -> None:
    kind = kind_of(field)
    shown = "" if field.default in (None, "") else f" (default: {text_of(field.default)})"
    text = (field.metadata["help"] + shown).replace("%", "%%")
    flag = f"--{field.name}"
    if kind is bool:
        group.add_argument(
            flag,
            type=CONVERTERS[kind],
            nargs="?",
            const=True,
            default=field.default,
            metavar="true|false",
            help=text,
        )
        group.add_argument(
            f"--no{field.name}", dest=field.name, action="store_false", help=argparse.SUPPRESS
        )
        return
    choices = field.metadata["choices"]
    metavar = "|".join(choices) if choices else {int: "N", float: "X", str: "NAME"}[kind]
    group.add_argument(
        flag,
        type=CONVERTERS[kind],
        choices=choices,
        default=field.default,
        metavar=metavar,
        help=text,
    )


def kind_of(field: dataclasses.Field) -> type:
    """The type of one value; ``float | None`` is a float that need not be given."""
    kinds = [kind for kind in typing.get_args(field.type) if kind is not type(None)]
    return kinds[0] if kinds else field.type  # type: ignore[return-value]


def _number(text: str) -> int:
    """A whole number as people write it: 200000000, 200_000_000, 2e8."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer():
            raise ValueError(text) from None
        return int(value)


_number.__name__ = "whole number"


def _real(text: str) -> float:
    return float(text)


_real.__name__ = "number"


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "yes", "on"):
        return True
    if text.lower() in ("false", "0", "no", "off"):
        return False
    raise ValueError(text)


_boolean.__name__ = "true or false"


KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
CONVERTERS: dict[type, Callable[[str], Any]] = {
    bool: _boolean,
    int: _number,
    float: _real,
    str: str,
}


def _is_a(kind: type, value: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _problem_with_number(limits: Mapping[str, Any], value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "expected a finite number"
    if limits["least"] is not None and value < limits["least"]:
        return f"must be {text_of(limits['least'])} or more"
    if limits["most"] is not None and value > limits["most"]:
        return f"must be {text_of(limits['most'])} or less"
    if limits["above"] is not None and value <= limits["above"]:
        return f"must be above {text_of(limits['above'])}"
    return ""


def _unknown_flag(given: str, names: Iterable[str]) -> str:
    name = given.split("=")[0]
    if not name.startswith("-"):
        return f"{given!r} is not a flag: write --NAME=VALUE. --help lists all flags."
    hint = near(name, [f"--{one}" for one in names])
    return f"there is no flag {name}.{hint} --help lists all flags."


def text_of(value: Any) -> str:
    """A value as it is written after a flag."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
