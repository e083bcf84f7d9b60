"""Settings that a command line takes from elsewhere: a preset, a file.

A flag wins over ``--config``, which wins over ``--preset``, which wins over the default.
"""

import argparse
import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import flags
from algorithms import registry
from flags import setting
from user_error import UserError

# The settings that there are, by the name of the algorithm.
Definitions = Callable[[str], Sequence[dataclasses.Field]]


@dataclasses.dataclass(frozen=True)
class SourceFlags:
    """Flags that are no settings themselves: a run records what they stand for."""

    preset: str = setting(
        "",
        "What to do",
        "a named set of settings; --preset=help lists them. --config and other flags win over it",
    )
    config: str = setting(
        "",
        "What to do",
        "YAML or JSON file with settings by the names of their flags, such as settings.json of a "
        "run. Other flags win over it",
    )


class Found(NamedTuple):
    """What preset and file say."""

    algorithm: str  # also if a flag names it, or if it is the default
    values: dict[str, Any]


def named(arguments: Sequence[str]) -> argparse.Namespace:
    """The algorithm, preset and file that a command line names; None where it does not."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("algorithm", "preset", "config"):
        finder.add_argument(f"--{name}", nargs="?")
    return finder.parse_known_args(list(arguments))[0]


def given(arguments: Sequence[str]) -> list[str]:
    """The names of the flags on a command line."""
    return [word[2:].partition("=")[0] for word in arguments if word.startswith("--")]


def instead_of(name: str, known: Iterable[str]) -> str:
    """The end of the sentence that there is no such setting: whose it is, or what is like it."""
    owners = registry.owners(name)
    if owners:
        return f"; {name} is a setting of --algorithm={' or '.join(owners)}."
    return f".{flags.near(name, known)}"


def read(
    arguments: Sequence[str], definitions: Definitions, ignored: Collection[str] = ()
) -> Found:
    """What the preset and file of a command line say; ``--preset=help`` lists the presets."""
    chosen = named(arguments)
    for flag, what in (("preset", "preset"), ("config", "file")):
        if getattr(chosen, flag) == "":  # as where a variable of the shell has another name
            raise UserError(f"--{flag}= names nothing. Name a {what}, or leave the flag out.")
    return collect(chosen.preset, chosen.config, chosen.algorithm, definitions, ignored)


def collect(
    preset: str | None,
    config: str | None,
    algorithm: str | None,
    definitions: Definitions,
    ignored: Collection[str] = (),
) -> Found:
    """What a preset and a file say where neither has to be given.

    ``algorithm`` wins over theirs. Settings that are ``ignored`` may be in them, too.
    """
    if not (preset or config):
        return Found(algorithm or registry.DEFAULT, {})
    from trainer.settings import files, presets  # YAML is imported only if it is needed

    if preset == presets.HELP:
        print(presets.listing())
        raise SystemExit(0)
    paths = {}
    if preset:
        paths[f"--preset={preset}"] = presets.path_of(preset)
    if config:
        paths[f"--config={config}"] = Path(config)
    contents = {flag: files.load(path, flag) for flag, path in paths.items()}
    known = _definitions(algorithm, contents, definitions)
    values: dict[str, Any] = {}
    for flag, content in contents.items():
        values |= files.values(content, flag, known, ignored)
    return Found(algorithm or values.get("algorithm", registry.DEFAULT), values)


def _definitions(
    algorithm: str | None, contents: dict[str, dict[str, Any]], definitions: Definitions
) -> Sequence[dataclasses.Field]:
    """The settings of the algorithm that is named last: by a preset, a file or a flag."""
    if algorithm:
        return definitions(algorithm)
    for flag, content in reversed(contents.items()):
        if "algorithm" in content:
            try:
                return definitions(str(content["algorithm"]))
            except UserError as error:
                raise UserError(f"{flag}: {error}") from None
    return definitions(registry.DEFAULT)
