"""The settings of one process: the parts that packages declare, and their flags.

Nothing heavy is imported, so that ``--help`` answers at once.
"""

import argparse
import copy
import dataclasses
import json
import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import credentials
import flags
from algorithms import registry
from algorithms.settings import AlgorithmSettings
from trainer.acting.settings import ActorSettings, AgentSettings, LevelSettings
from trainer.learning.settings import LearningSettings
from trainer.machine.launching import script_name
from trainer.remote.settings import RemoteSettings
from trainer.reporting.settings import ReportingSettings
from trainer.settings import sources
from trainer.settings.program import ProgramSettings
from trainer.settings.sources import SourceFlags
from trainer.settings.trained import TrainedSettings
from trainer.storage.settings import StorageSettings
from trainer.team.settings import TeamSettings
from user_error import UserError

# In this order --help and the guide list them.
GROUPS = (
    "What to do",
    "Environment",
    "Actors",
    "Cluster",
    "Agent",
    "Learning",
    "Watching",
    "Testing",
)


@dataclasses.dataclass(frozen=True, init=False)
class Settings:
    """All settings of one process. Each package is handed its own part of them.

    They are made from flat keywords, named like the flags; what is not given has its default.
    Paths and numbers of NumPy become plain values, and a number is text where a flag takes text.
    """

    program: ProgramSettings
    storage: StorageSettings
    level: LevelSettings
    actors: ActorSettings
    remote: RemoteSettings
    team: TeamSettings
    agent: AgentSettings
    learning: LearningSettings
    algorithm: Any  # of the class that --algorithm names
    reporting: ReportingSettings
    trained: TrainedSettings
    _filled: ClassVar[frozenset[str]]  # of each: those that ``filled`` has chosen

    def __init__(self, **values: Any):
        algorithm = registry.name_of(str(values.get("algorithm", registry.DEFAULT)))
        values = dict(registry.settings_of(algorithm).defaults) | values | {"algorithm": algorithm}
        for name, kind in kinds(algorithm).items():
            own = [field for field in dataclasses.fields(kind) if field.name in values]
            part = kind(**{one.name: _plain(one, values.pop(one.name)) for one in own})
            object.__setattr__(self, name, part)
        if values:
            names = [field.name for field in fields(algorithm)]
            hint = sources.instead_of(next(iter(values)), names)
            raise TypeError(f"there is no setting {', '.join(values)}{hint}")
        self._fill(frozenset())

    def _fill(self, names: frozenset[str]) -> None:
        """Keeps which settings nobody has chosen, although they are not at their defaults."""
        object.__setattr__(self, "_filled", names)

    def parts(self) -> list[Any]:
        """The parts, in the order in which they are listed."""
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def flat(self) -> dict[str, Any]:
        """Every setting by its flag's name."""
        return {
            field.name: getattr(part, field.name)
            for part in self.parts()
            for field in dataclasses.fields(part)
        }

    def replace(self, **changes: Any) -> "Settings":
        """The same settings but for these; another algorithm brings its own defaults."""
        algorithm, values, filled = self.program.algorithm, self.flat(), self._filled
        if registry.name_of(str(changes.get("algorithm", algorithm))) != algorithm:
            values = {
                field.name: values[field.name]
                for field in fields(algorithm)
                if values[field.name] != field.default and field.name not in filled
            }
            filled = frozenset()
        changed = Settings(**(values | changes))
        changed._fill(filled - set(changes))
        return changed

    def filled(self, **values: Any) -> "Settings":
        """With values that fit what is played; another algorithm does not keep them."""
        before, done = self.flat(), self.replace(**values)
        new = {name for name, value in done.flat().items() if value != before[name]}
        done._fill(self._filled | new)
        return done

    @property
    def run_folder(self) -> str:
        """``--logdir``, or its default by the level's name."""
        safe = self.level.level_name.replace("/", "-").replace(",", "+").replace(":", "-")
        return self.storage.logdir or f"logs/{safe}"

    @property
    def credentials_folder(self) -> str:
        """Where a learner makes credentials, and where they are looked for unless named."""
        return f"{self.run_folder}/{credentials.FOLDER}"

    @property
    def credentials_file(self) -> str:
        """``--credentials``, or its default by ``--job_name``."""
        learns = self.program.job_name == "learner"
        name = credentials.LEARNER if learns else credentials.ACTOR
        return self.remote.credentials or f"{self.credentials_folder}/{name}"


def _plain(field: dataclasses.Field, value: Any) -> Any:
    """A value as JSON can hold it; text where the flag takes text such as a number."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    value = value.item() if hasattr(value, "item") else value
    return flags.value_of(field, value) if flags.kind_of(field) is str else value


def kinds(algorithm: str = registry.DEFAULT) -> dict[str, type]:
    """The class of each part, by its name, where this algorithm learns."""
    classes: dict[str, Any] = {field.name: field.type for field in dataclasses.fields(Settings)}
    own = registry.settings_of(algorithm)
    _check_names(algorithm, own, [kind for kind in classes.values() if kind is not Any])
    return classes | {"algorithm": own}


def _check_names(
    algorithm: str, own: type[AlgorithmSettings], parts: Collection[type[Any]]
) -> None:
    """Refuses an algorithm's setting with another one's name, and its default of none."""
    mine, others, sources_too = (
        [field.name for part in some for field in dataclasses.fields(part)]
        for some in ([own], parts, [SourceFlags])
    )
    for name in mine:
        if name in (*others, *sources_too, "help"):
            raise UserError(
                f"--algorithm={algorithm}: its setting {name} has the name of another flag; "
                "expected a name of its own. Rename it, or let `defaults` say what the other's "
                "default is."
            )
    for name in own.defaults:
        if name not in (*mine, *others):
            raise UserError(
                f"--algorithm={algorithm}: `defaults` has {name}, which is no setting; expected "
                f"names of flags. Rename it, or leave it out.{flags.near(name, others)}"
            )


def fields(algorithm: str = registry.DEFAULT) -> tuple[dataclasses.Field, ...]:
    """The settings' definitions, in the order in which they are listed."""
    every = [field for kind in kinds(algorithm).values() for field in dataclasses.fields(kind)]
    own = registry.settings_of(algorithm).defaults
    return _listed([_with_default(field, own) for field in every])


def _with_default(field: dataclasses.Field, own: Mapping[str, Any]) -> dataclasses.Field:
    """A definition with the algorithm's own default, if it has one."""
    if field.name not in own:
        return field
    changed = copy.copy(field)
    changed.default = own[field.name]
    return changed


def flag_fields(algorithm: str = registry.DEFAULT) -> tuple[dataclasses.Field, ...]:
    """The definitions of all flags: those of the settings, and of where to take them from."""
    return _listed([*fields(algorithm), *dataclasses.fields(SourceFlags)])


def _listed(definitions: Sequence[dataclasses.Field]) -> tuple[dataclasses.Field, ...]:
    return tuple(sorted(definitions, key=lambda field: GROUPS.index(field.metadata["group"])))


def parse(arguments: Sequence[str]) -> Settings:
    """Settings from a command line; ``UserError`` names what is wrong with a flag or file."""
    from trainer.settings import checks

    algorithm, defaults = sources.read(arguments, fields)
    check_owner(arguments, algorithm)
    values = flags.parse(make_parser(algorithm), arguments, defaults)
    values = checks.without_unused(values, sources.given(arguments))
    settings = Settings(**without_sources(values))
    checks.check(settings)
    return settings


def check_owner(arguments: Sequence[str], algorithm: str, besides: Collection[str] = ()) -> None:
    """Refuses a flag of another algorithm, and says whose it is; ``besides`` are flags, too."""
    mine = {*besides, *(field.name for field in flag_fields(algorithm))}
    for name in sources.given(arguments):
        if mine & {name, name.removeprefix("no")}:
            continue
        setting = name if registry.owners(name) else name.removeprefix("no")
        owners = registry.owners(setting)
        if owners:
            given = "" if setting == name else f"--{name}: "
            raise UserError(
                f"{given}--{setting} is a setting of --algorithm={' or '.join(owners)}; this "
                f"command is for --algorithm={algorithm}."
            )


def without_sources(values: dict[str, Any]) -> dict[str, Any]:
    """The values of flags without those that only say where to take settings from."""
    own = {field.name for field in dataclasses.fields(SourceFlags)}
    return {name: value for name, value in values.items() if name not in own}


def algorithm_in(arguments: Sequence[str]) -> str:
    """The algorithm that a command line names, which decides what other flags there are."""
    return sources.named(arguments).algorithm or registry.DEFAULT


def given(arguments: Sequence[str]) -> frozenset[str]:
    """The settings that a command line, its preset or its file names, also with their defaults."""
    algorithm, defaults = sources.read(arguments, fields)
    words = {argument.partition("=")[0] for argument in arguments}
    names = (field.name for field in fields(algorithm))
    return frozenset(
        name for name in names if name in defaults or words & {f"--{name}", f"--no{name}"}
    )


def from_record(record: dict[str, Any]) -> Settings:
    """Settings as a run has recorded them, without what is no setting any more."""
    known = {field.name for field in fields(record.get("algorithm", registry.DEFAULT))}
    return Settings(**{name: value for name, value in record.items() if name in known})


def to_flags(settings: Settings) -> list[str]:
    """The flags that give these settings again; those left at their defaults are not named."""
    values = settings.flat()
    return [
        f"--{field.name}={flags.text_of(values[field.name])}"
        for field in fields(settings.program.algorithm)
        if values[field.name] != field.default
    ]


def to_command(settings: Settings) -> str:
    """The flags as they can be pasted into a shell."""
    return " ".join(shlex.quote(flag) for flag in to_flags(settings))


def to_json(settings: Settings) -> str:
    """All settings as a JSON object."""
    return json.dumps(settings.flat(), indent=2)


def make_parser(algorithm: str = registry.DEFAULT) -> argparse.ArgumentParser:
    """The command line's definition, made from the parts of ``Settings``."""
    return flags.parser_of(
        flag_fields(algorithm),
        script_name("experiment.py"),
        "Train, evaluate or export an agent.",
        EXAMPLES.replace("bin/train", script_name("bin/train")),
    )


EXAMPLES = """examples:
  bin/train                                   Pong, with settings that learn it
  bin/train --level_name=CartPole-v1
  bin/train --preset=help                     list named sets of settings
  bin/train --mode=test --video=pong.gif      play with what was trained, record it
  bin/train --level_name=BreakoutNoFrameskip-v4 --logdir=logs/breakout
"""
