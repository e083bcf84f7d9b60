"""Settings in files: YAML or JSON, by the names of their flags."""

import dataclasses
import json
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

import flags
from trainer.settings import sources
from user_error import UserError

DESCRIPTION = "description"  # for people, not a setting


def load(path: Path, name: str) -> dict[str, Any]:
    """What a file holds; ``name`` is how errors call it."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UserError(f"{name}: cannot be read ({reason}).") from None
    try:
        if path.suffix == ".json":
            content = json.loads(text, object_pairs_hook=_distinct)
        else:
            content = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{name}: {_reason(error)}.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"{name}: expected settings, such as 'batch_size: 16', one a line.")
    return {str(key): value for key, value in content.items()}


def values(
    content: dict[str, Any],
    name: str,
    definitions: Sequence[dataclasses.Field],
    ignored: Container[str] = (),
) -> dict[str, Any]:
    """The settings that a file's content gives; ``UserError`` names the first wrong key."""
    known = {field.name: field for field in definitions}
    found = {}
    for key, given in content.items():
        if key == DESCRIPTION or key in ignored:
            continue
        if key not in known:
            hint = sources.instead_of(key, known)
            raise UserError(f"{name}: there is no setting {key}{hint} --help lists all.")
        value = flags.value_of(known[key], given)
        wrong = flags.problem_with(known[key], value)
        if wrong:
            raise UserError(f"{name}: {key}: {_shown(given)}: {wrong}.")
        found[key] = value
    return found


class _Loader(yaml.SafeLoader):
    """Reads YAML; a key that is there twice is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        _distinct([(self.construct_object(key, deep), None) for key, _ in node.value])
        return super().construct_mapping(node, deep)


def _distinct(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if str(key) in found:
            raise ValueError(f"{key} is given twice")
        found[str(key)] = value
    return found


def _reason(error: Exception) -> str:
    """A parser's complaint in one line."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}: {error.msg}"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split())


def _shown(given: Any) -> str:
    """A value as the file has it, shortened."""
    text = "null" if given is None else flags.text_of(given)
    return text if len(text) <= 60 else f"{text[:60]}…"
