"""The part ``meta`` of a spec: how often, how long and with what its trials run."""

import dataclasses
import textwrap
from typing import Any

import flags
from flags import setting
from lab.specs.errors import refuse, refuse_key

SEARCHES = ("random", "tpe", "grid", "evolutionary", "cma")
OBJECTIVES = ("auto", "fitness", "strength", "best_return", "final_return")
STOPPINGS = ("none", "halving")
LEAST_FINAL_SESSIONS = 3  # fewer seeds mislead about which trial is the best
MOST_SESSIONS = 10**6
# Of the first session; those of the others and of finalists fit, too.
LARGEST_SEED = 2**31 - 1 - 2 * MOST_SESSIONS


@dataclasses.dataclass(frozen=True)
class Resources:
    """What one session gets."""

    cores: int = setting(1, "resources", "cores of a session", least=1, most=1024)
    memory_gb: float = setting(
        1.5, "resources", "memory that a session needs; no more start than fit", above=0
    )


@dataclasses.dataclass(frozen=True)
class Standard:
    """When a level counts as solved; ``lab/results/standards`` has usual figures."""

    solved_return: float | None = setting(
        None, "standard", "mean return at which a level is solved"
    )
    solved_frames: float | None = setting(
        None, "standard", "frames in which it is usually solved", above=0
    )


@dataclasses.dataclass(frozen=True)
class Meta:
    """How an experiment runs."""

    sessions: int = setting(
        1, "meta", "trainings of a trial, each with its seed", least=1, most=MOST_SESSIONS
    )
    trials: int = setting(16, "meta", "draws of a search; each with every point of a grid", least=1)
    search: str = setting(
        "tpe",
        "meta",
        "how trials are proposed: at random; tpe: near those that did well; grid: every "
        "combination; evolutionary: NSGA-II; cma: CMA-ES, for numbers only",
        choices=SEARCHES,
    )
    population: int = setting(
        8, "meta", "trials of a generation, where the search is evolutionary", least=2
    )
    objective: str = setting(
        "auto",
        "meta",
        "what a search maximises; auto: the fitness where the level has a standard, otherwise the "
        "strength (the mean return above random play)",
        choices=OBJECTIVES,
    )
    early_stopping: str = setting(
        "none",
        "meta",
        "halving: at a quarter and a half of its frames a trial goes on only if it is among the "
        "better half that has come that far",
        choices=STOPPINGS,
    )
    finalists: int = setting(
        2, "meta", "best trials of a search that run again with new seeds; 0: none", least=0
    )
    final_sessions: int = setting(
        3,
        "meta",
        "their new seeds, and those of the spec's own settings",
        least=LEAST_FINAL_SESSIONS,
        most=MOST_SESSIONS,
    )
    seed: int = setting(
        1, "meta", "first seed of sessions; it also seeds the search", least=0, most=LARGEST_SEED
    )
    keep: int = setting(
        3,
        "meta",
        "best trials, the winner among them, that keep checkpoints, replays, TensorBoard's events "
        "and whole logs; in a benchmark, of each level",
        least=1,
    )
    retries: int = setting(0, "meta", "new attempts of a session that fails", least=0, most=10)
    session_timeout_s: float = setting(
        0.0, "meta", "seconds after which a session is ended as failed; 0: no limit", least=0
    )
    silent_timeout_s: float = setting(
        600.0,
        "meta",
        "seconds without a report or new unrolls after which a session counts as hanging",
        above=0,
    )
    resources: Resources = dataclasses.field(default_factory=Resources)
    standard: Standard = dataclasses.field(default_factory=Standard)


PARTS: dict[str, type] = {"resources": Resources, "standard": Standard}


def read(given: Any, where: str) -> Meta:
    """The ``meta`` of a spec; ``where`` is its file and path of keys."""
    values = dict(mapping(given, where))
    parts = {
        name: kind(**_values(mapping(values.pop(name), f"{where}.{name}"), kind, f"{where}.{name}"))
        for name, kind in PARTS.items()
        if name in values
    }
    return Meta(**_values(values, Meta, where), **parts)


def mapping(given: Any, where: str) -> dict[str, Any]:
    """A part of a spec that has keys; nothing at all counts as an empty one."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        refuse(where, given, "keys with values")
    return {str(key): value for key, value in given.items()}


def check_value(field: dataclasses.Field, given: Any, where: str) -> Any:
    """A value as its flag takes it; refused where the flag would refuse it."""
    value = flags.value_of(field, given)
    wrong = flags.problem_with(field, value)
    if wrong:
        expected = wrong.removeprefix("expected ").removeprefix("must be ")
        refuse(where, given, expected.replace("above ", "more than ", 1))
    return value


def _values(given: dict[str, Any], kind: type, where: str) -> dict[str, Any]:
    known = {field.name: field for field in dataclasses.fields(kind)}
    for key in given:
        if key not in known:
            refuse_key(f"{where}.{key}", known)
    return {key: check_value(known[key], value, f"{where}.{key}") for key, value in given.items()}


def describe() -> str:
    """Every key of ``meta`` with its meaning and its default, for ``--help``."""
    lines = []
    for kind, prefix in ((Meta, ""), (Resources, "resources."), (Standard, "standard.")):
        for field in [one for one in dataclasses.fields(kind) if one.metadata]:
            usual = "" if field.default is None else f" (default: {flags.text_of(field.default)})"
            text = f"{prefix + field.name:<24}  {field.metadata['help']}{usual}"
            lines.append(textwrap.fill(text, 98, initial_indent="  ", subsequent_indent=" " * 28))
    return "\n".join(lines)
