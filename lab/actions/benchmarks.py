"""The experiment of a benchmark: several specs, alike but for what they compare, on levels."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from environments import names
from lab.results.standards import SETS
from lab.specs import frozen
from lab.specs import spec as specs
from lab.specs.errors import refuse, shown
from lab.specs.meta import Standard
from lab.specs.spec import Spec
from user_error import UserError, closest

# In meta, specs of one benchmark may differ by their seeds, and by what only a search looks at.
MAY_DIFFER = {
    *("sessions", "seed", "trials", "search", "population", "early_stopping"),
    *("finalists", "final_sessions"),
}


def benchmark(path: str, name: str, levels: str) -> tuple[Spec, dict[str, Any]]:
    """The spec of a benchmark, and the specs and levels that belong to it."""
    every = specs.read_all(path, name)
    is_experiment = Path(path).is_dir() or Path(path).name == "spec.json"
    extra = frozen.extra_of(every[0]) if is_experiment and len(every) == 1 else {}
    if extra and levels:
        raise UserError(f"--levels={levels}: {path} has its own levels; leave it out.")
    if extra:
        return every[0], extra
    chosen = SETS.get(levels) or [part.strip() for part in levels.split(",") if part.strip()]
    if not chosen:
        raise UserError(
            f"--levels={levels}: expected {', '.join(SETS)}, or levels with commas between."
        )
    if twice := next((level for level in chosen if list(chosen).count(level) > 1), ""):
        raise UserError(f"--levels={levels}: {twice} is given twice; expected each level once.")
    known = {one.name: one.content() for one in every}
    for one in every:
        for level in chosen:
            if "-" not in level and ":" not in level and level not in SETS and not _is_known(level):
                near = closest(level, SETS)
                raise UserError(
                    f"--levels={levels}: found {level}; expected a set or levels. {near}"
                )
            specs.for_level(one.name, one.content(), level, path)
        for level, own in one.by_level.items():
            if level not in chosen:
                expected = f"one of the levels that are played. {closest(level, chosen)}"
                refuse(f"{path}: {one.name}.by_level.{level}", own, expected)
    _check_alike(every, path)
    standard = every[0].meta.standard
    if len(chosen) > 1 and standard != Standard():
        expected = "nothing here: a benchmark of several levels has the usual figures of each"
        refuse(f"{path}: {every[0].name}.meta.standard", dataclasses.asdict(standard), expected)
    title = specs.benchmark_of(path, name)
    base = specs.parse(title, {**every[0].content(), "search": {}}, path)
    return base, {"specs": known, "levels": list(chosen)}


def _is_known(level: str) -> bool:
    try:
        names.find(level)
    except UserError:
        return False
    return True


def _check_alike(every: Sequence[Spec], path: str) -> None:
    """Refuses specs that one benchmark cannot run alike."""
    first, *others = every
    wanted = _flat(first)
    for one in others:
        for key, value in _flat(one).items():
            if value != wanted[key]:
                expected = f"{shown(wanted[key])}, as {first.name} has: a benchmark runs all alike"
                refuse(f"{path}: {one.name}.meta.{key}", value, expected)


def _flat(spec: Spec) -> dict[str, Any]:
    """What all specs of a benchmark have in common, by its path of keys in meta."""
    found: dict[str, Any] = {}
    for key, value in dataclasses.asdict(spec.meta).items():
        if key not in MAY_DIFFER:
            parts = value if isinstance(value, dict) else {}
            found |= {f"{key}.{name}": one for name, one in parts.items()} or {key: value}
    return found
