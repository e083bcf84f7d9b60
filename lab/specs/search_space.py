"""What is searched: keys ``KEY__KIND`` of a spec, and how a value is drawn for each."""

import dataclasses
import math
import statistics
from collections.abc import Iterable
from typing import Any

from flags import kind_of, value_of
from lab.specs.errors import refuse
from lab.specs.meta import check_value
from user_error import closest

GRID = "grid_search"
LISTS = ("choice", GRID)
NUMBERS = ("uniform", "loguniform", "randint", "normal")
KINDS = (*LISTS, *NUMBERS)
# A normal value further out than this many deviations is never drawn.
FURTHEST = 3.0
LEAST_CHANCE = 1 - statistics.NormalDist().cdf(FURTHEST)


@dataclasses.dataclass(frozen=True)
class Searched:
    """One searched setting."""

    name: str  # of the flag
    kind: str  # of KINDS
    values: tuple[Any, ...]  # a list's values; a range's ends; a normal's mean and deviation
    whole: bool = False  # whether the setting is a whole number

    @property
    def key(self) -> str:
        """As a spec has it."""
        return f"{self.name}__{self.kind}"

    def value(self, drawn: Any) -> Any:
        """The setting's value for what the search has drawn."""
        if self.kind != "normal":
            return drawn
        mean, deviation = self.values
        value = statistics.NormalDist(mean, deviation).inv_cdf(drawn) if deviation else mean
        return round(value) if self.whole else value


@dataclasses.dataclass(frozen=True)
class Grid:
    """Every combination of keys, of which there may be too many for a list; one without keys."""

    keys: tuple[Searched, ...]

    @classmethod
    def of(cls, searched: Iterable[Searched], all_lists: bool = False) -> "Grid":
        """That of the keys that are gone through in full."""
        kinds = LISTS if all_lists else (GRID,)
        return cls(tuple(one for one in searched if one.kind in kinds))

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return math.prod(len(one.values) for one in self.keys)

    def point(self, place: int) -> dict[str, Any]:
        """The combination at this place, counted from 0; the last key changes first."""
        found = {}
        for one in reversed(self.keys):
            place, which = divmod(place, len(one.values))
            found[one.name] = one.values[which]
        return {one.name: found[one.name] for one in self.keys}


def read(name: str, kind: str, given: Any, field: dataclasses.Field, where: str) -> Searched:
    """A searched setting with its values checked; ``where`` is the file and path of its key."""
    if kind not in KINDS:
        refuse(where, given, f"a kind of search after __. {closest(kind, KINDS)}")
    if not isinstance(given, list) or not given:
        example = '["a", "b"]' if kind in LISTS else "[low, high]"
        refuse(where, given, f"a list such as {example}")
    whole = kind_of(field) is int
    if kind in LISTS:
        values = tuple(
            check_value(field, one, f"{where}[{place}]") for place, one in enumerate(given)
        )
        if len(set(map(str, values))) < len(values):
            refuse(where, given, "each value once")
        return Searched(name, kind, values, whole)
    if kind_of(field) not in (int, float):
        refuse(where, given, f"choice or {GRID}: {name} is no number")
    return Searched(name, kind, _numbers(kind, given, field, where), whole)


def _numbers(kind: str, given: list[Any], field: dataclasses.Field, where: str) -> tuple[Any, ...]:
    # YAML reads 1e-4 as text.
    given = [value_of(field, one) if isinstance(one, str) else one for one in given]
    numbers = [one for one in given if isinstance(one, (int, float)) and math.isfinite(one)]
    if len(given) != 2 or len(numbers) != 2 or any(isinstance(one, bool) for one in given):
        what = "mean, deviation" if kind == "normal" else "low, high"
        refuse(where, given, f"two numbers: [{what}]")
    first, second = given
    if kind == "normal":
        if second < 0:
            refuse(f"{where}[1]", second, "a deviation of 0 or more")
        drawn = Searched(field.name, kind, (first, second), kind_of(field) is int)
        for chance in (LEAST_CHANCE, 1 - LEAST_CHANCE):
            end = drawn.value(chance)
            check_value(field, end, f"{where} ({FURTHEST:g} deviations from its mean)")
        return first, second
    if not first < second:
        refuse(where, given, "the lower end first, and a higher one after it")
    if kind == "loguniform" and first <= 0:
        refuse(f"{where}[0]", first, "a number above 0, because its logarithm is drawn")
    whole_ends = kind == "randint" or kind_of(field) is int
    if whole_ends and not (float(first).is_integer() and float(second).is_integer()):
        refuse(where, given, "whole numbers")
    last = second - 1 if kind == "randint" else second
    for place, end in enumerate((first, last)):
        check_value(field, int(end) if whole_ends else end, f"{where}[{place}]")
    return (int(first), int(last)) if whole_ends else (float(first), float(last))
