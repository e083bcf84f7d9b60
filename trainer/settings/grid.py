"""``--grid``: the combinations of settings that are to be evaluated."""

import dataclasses
import itertools
from typing import Any

import flags
from trainer.acting.settings import LevelSettings
from trainer.settings.program import ProgramSettings
from trainer.settings.trained import TrainedSettings
from user_error import UserError

# Each name in a grid, and the setting that it stands for.
NAMES = {
    "test_policy": "test_policy",
    "temperature": "test_temperature",
    "noops": "noop_max",
    "episodes": "test_num_episodes",
    "step_limit": "step_limit",
    "sticky_actions": "sticky_actions",
    "max_episode_frames": "max_episode_frames",
    "seed": "seed",
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One combination."""

    values: dict[str, Any]  # by their names in the grid

    @property
    def name(self) -> str:
        """As people read it: temperature=0.5 noops=8; "" for a grid of one cell without names."""
        return " ".join(f"{name}={flags.text_of(value)}" for name, value in self.values.items())

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that it changes."""
        return {NAMES[name]: value for name, value in self.values.items()}


def cells(text: str) -> list[Cell]:
    """All combinations of ``name=value,value;name=value``; a single empty one for ""."""
    columns: dict[str, list[Any]] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, values = part.partition("=")
        if not equals or not values.strip():
            raise UserError(f"--grid={text}: expected NAME=VALUE,VALUE;..., got {part!r}.")
        name = _known(name.strip(), text)
        if name in columns:
            raise UserError(f"--grid={text}: {name} is given twice.")
        columns[name] = [_value(name, value.strip(), text) for value in values.split(",")]
        if len(set(columns[name])) < len(columns[name]):
            raise UserError(f"--grid={text}: {name} has a value twice.")
    combinations = itertools.product(*columns.values())
    return [Cell(dict(zip(columns, chosen, strict=True))) for chosen in combinations]


def _known(name: str, text: str) -> str:
    short = {setting: one for one, setting in NAMES.items()}.get(name, name)
    if short not in NAMES:
        hint = flags.near(short, NAMES)
        raise UserError(f"--grid={text}: there is no {name} there, but {', '.join(NAMES)}.{hint}")
    return short


def _value(name: str, given: str, text: str) -> Any:
    field = _fields()[NAMES[name]]
    value = flags.value_of(field, given)
    wrong = flags.problem_with(field, value)
    if wrong:
        raise UserError(f"--grid={text}: {name}={given}: {wrong}.")
    return value


def _fields() -> dict[str, dataclasses.Field]:
    parts = (LevelSettings, ProgramSettings, TrainedSettings)
    return {field.name: field for part in parts for field in dataclasses.fields(part)}
