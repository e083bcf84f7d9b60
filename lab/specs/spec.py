"""Reads specs: named experiments in YAML or JSON, each checked before anything is started."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algorithms import registry
from environments import names
from lab.specs import meta, search_space, slm
from lab.specs.errors import refuse, refuse_key
from lab.specs.given import SHORT, USUAL, given_search, given_settings
from lab.specs.meta import Meta, mapping
from lab.specs.search_space import Searched
from trainer.machine.launching import script_name
from trainer.settings import checks, config, files
from trainer.settings.config import Settings
from user_error import UserError, closest

KEYS = (
    *("description", "preset", "level", "levels", "algorithm", "agent", "settings", "by_level"),
    *("meta", "search", "frozen"),
)
NAME = re.compile(r"[\w.-]+")
# What experiments are called after their spec, or its file.
DEV, BENCHMARK = "_dev", "_benchmark"
MOST_CHECKED = 200  # combinations of a grid
REPORTS_WITHIN = 2  # at least so many within meta.silent_timeout_s


@dataclasses.dataclass(frozen=True)
class Spec:
    """One experiment as somebody wrote it down."""

    name: str
    settings: dict[str, Any]  # by the names of their flags
    meta: Meta
    searched: tuple[Searched, ...] = ()
    by_level: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)  # benchmarks
    description: str = ""
    frozen: dict[str, Any] = dataclasses.field(default_factory=dict)  # of an earlier run
    notes: tuple[str, ...] = ()  # what a translation left out

    @property
    def levels(self) -> list[str]:
        """The levels that are played, in order."""
        return Settings(**self.settings).level.levels

    @property
    def total_frames(self) -> int:
        """The frames of a session; 0 where the trainer chooses them by the level."""
        return int(self.settings.get("total_environment_frames", 0))

    def content(self) -> dict[str, Any]:
        """The spec as a file has it; reading that gives the same spec."""
        own = {flag: key for key, flag in SHORT.items()}
        short = {own[name]: value for name, value in self.settings.items() if name in own}
        rest = {name: value for name, value in self.settings.items() if name not in own}
        search: dict[str, Any] = {}
        for one in self.searched:
            # A range of whole numbers without its end, as in the file.
            ends = one.kind == "randint"
            values = [one.values[0], one.values[1] + 1] if ends else list(one.values)
            if one.name in own:
                search[f"{own[one.name]}__{one.kind}"] = values
            else:
                search.setdefault("settings", {})[one.key] = values
        return {
            "description": self.description,
            **short,
            "settings": rest,
            "by_level": self.by_level,
            "meta": dataclasses.asdict(self.meta),
            "search": search,
        }


def read(path: str | Path, name: str = "") -> Spec:
    """One spec of a file: the named one, or the only one."""
    found = _content(path)
    if not name and len(found) > 1:
        raise UserError(
            f"{path}: has {len(found)} specs; name one of them, such as {path}:{next(iter(found))} "
            f"({', '.join(found)})."
        )
    name = name or next(iter(found))
    if name not in found:
        raise UserError(f"{path}: there is no spec {name!r}. {closest(name, found)}")
    spec = parse(name, found[name], str(path))
    if not spec.frozen and not NAME.fullmatch(name):  # files of a frozen one have it already
        refuse(str(path), name, "a name of letters, digits and _ . - only, as files have it, too")
    return spec


def read_all(path: str | Path, name: str = "") -> list[Spec]:
    """All specs of a file, or the named one."""
    wanted = [name] if name else list(_content(path))
    return [read(path, one) for one in wanted]


def benchmark_of(path: str, name: str = "") -> str:
    """What a benchmark of a file's specs, or of one of them, is called."""
    return (name or re.sub(r"\W+", "_", Path(path).stem)) + BENCHMARK


def started_as(argument: str) -> set[str]:
    """What experiments of ``SPEC[:NAME]`` are called; of several specs only their benchmark."""
    path, name = split(argument)
    found = _content(path)
    if name or len(found) == 1:
        own = read(path, name).name
        return {own, own + DEV, benchmark_of(path, name)}
    return {benchmark_of(path)}


def split(argument: str) -> tuple[str, str]:
    """The file and the name in ``SPEC[:NAME]``."""
    path, colon, name = argument.rpartition(":")
    return (path, name) if colon and not Path(argument).exists() else (argument, "")


def _content(path: str | Path) -> dict[str, Any]:
    if Path(path).is_dir():
        path = Path(path) / "spec.json"
    found = files.load(Path(path), str(path))
    if not found:
        raise UserError(f"{path}: found nothing; expected named specs, such as 'cartpole: …'.")
    if set(found) & {"level", "settings", "algorithm"}:
        raise UserError(
            f"{path}: found {', '.join(found)} at the top; expected the spec's name there, and "
            "these below it."
        )
    return found


def parse(name: str, given: Any, source: str) -> Spec:
    """A spec with everything in it checked; ``source`` is what errors call its file."""
    where = f"{source}: {name}"
    content = mapping(given, where)
    notes: list[str] = []
    if slm.is_one(content):
        content, notes = slm.translate(content, where)
    for key in content:
        if key not in KEYS:
            refuse_key(f"{where}.{key}", KEYS)
    settings = given_settings(content, where)
    by_level = mapping(content.get("by_level"), f"{where}.by_level")
    for level, own in by_level.items():
        by_level[level] = mapping(own, f"{where}.by_level.{level}")
        for_level(f"{name}.by_level.{level}", {**content, "by_level": by_level}, level, source)
    found = Spec(
        name=name,
        settings=settings,
        by_level=by_level,
        meta=meta.read(content.get("meta"), f"{where}.meta"),
        searched=tuple(given_search(content, settings, where)),
        description=str(content.get("description", "")),
        frozen=mapping(content.get("frozen"), f"{where}.frozen"),
        notes=tuple(notes),
    )
    _check(found, where)
    return found


def for_level(name: str, content: Mapping[str, Any], level: str, source: str) -> Spec:
    """A benchmark's spec for one of its levels, with what ``by_level`` has for that level."""
    by_level = mapping(content.get("by_level"), f"{source}: {name}.by_level")
    own = mapping(by_level.get(level), f"{source}: {name}.by_level.{level}")
    settings = {**mapping(content.get("settings"), f"{source}: {name}.settings"), **own}
    left_out = ("by_level", "level", "levels", "search")
    rest = {key: value for key, value in content.items() if key not in left_out}
    return parse(name, {**rest, "level": level, "settings": settings}, source)


def _check(spec: Spec, where: str) -> None:
    """Refuses what single values cannot show: unknown levels, settings that do not fit together."""
    _check_levels(spec.settings["level_name"], f"{where}.level")
    for one in spec.searched:
        if one.name == SHORT["level"] and not spec.frozen:
            for value in one.values:
                _check_levels(value, f"{where}.search.settings.{one.key}")
    if SHORT["level"] in [one.name for one in spec.searched]:
        _check_over_levels(spec.meta, f"{where}.meta")
    for name, kinds in (("grid", search_space.LISTS), ("cma", search_space.NUMBERS)):
        wrong = [one for one in spec.searched if one.kind not in kinds]
        if (
            spec.meta.search == name
            and wrong
            and (name == "grid" or len(wrong) == len(spec.searched))
        ):
            refuse(
                f"{where}.meta.search", name, f"another search: {wrong[0].key} cannot be its part"
            )
    lists = search_space.Grid.of(spec.searched, all_lists=True)
    for place in range(min(lists.size, MOST_CHECKED)):
        settings = settings_of(spec.settings | lists.point(place), where)
        if not spec.frozen:
            _check_reports(settings.reporting.report_every_s, spec.meta, where)


def _check_levels(given: str, where: str) -> None:
    """Refuses levels that there are not."""
    for level in given.split(","):
        try:
            names.find(level.strip())
        except UserError as error:
            raise UserError(f"{where}: {error}".replace("--level_name: ", "")) from None


def _check_over_levels(given: Meta, where: str) -> None:
    """Refuses what would compare trials on different levels by figures that differ in kind."""
    if given.objective == "auto":
        kinds = " or ".join(one for one in meta.OBJECTIVES if one != "auto")
        expected = f"{kinds}: levels are searched, and auto may be another on each"
        refuse(f"{where}.objective", "auto", expected)
    if given.early_stopping == "halving":
        expected = "none: levels are searched, and their returns cannot be compared"
        refuse(f"{where}.early_stopping", "halving", expected)
    if given.standard != meta.Standard():
        expected = "nothing here: levels are searched, and each has its own"
        refuse(f"{where}.standard", dataclasses.asdict(given.standard), expected)


def _check_reports(every_s: float, limits: Meta, where: str) -> None:
    """Refuses reports that are so rare that a session would be taken for one that hangs."""
    if every_s * REPORTS_WITHIN >= limits.silent_timeout_s:
        silent_s, times = limits.silent_timeout_s, REPORTS_WITHIN
        if every_s == USUAL["report_every_s"]:
            expected = f"more than {every_s * times:g}; sessions report every {every_s:g} s"
            refuse(f"{where}.meta.silent_timeout_s", silent_s, expected)
        expected = f"less than {silent_s / times:g}, or a longer meta.silent_timeout_s"
        refuse(f"{where}.settings.report_every_s", every_s, expected)


def settings_of(values: Mapping[str, Any], where: str) -> Settings:
    """All settings of a session; refused where they do not fit together."""
    algorithm = str(values.get("algorithm", registry.DEFAULT))
    known = {field.name for field in config.fields(algorithm)}
    try:
        settings = Settings(**{name: one for name, one in values.items() if name in known})
        checks.check(settings)
        if settings.algorithm.program:
            raise UserError(
                f"algorithm {algorithm} is a program of trainings, which the lab cannot follow; "
                f"start it with {script_name('bin/train')}"
            )
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return settings
