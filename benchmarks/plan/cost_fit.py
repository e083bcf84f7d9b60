"""Compares measured rates of whole clusters with the model, and fits the model to them.

A CSV holds the rates, one a row:

    parts,placement,learners,actors,network,steps_per_s
    two_cores.json,one_machine,1,2,,2310

`parts` is a JSON file beside the CSV (``cost_model.Parts``), `placement` is `hosts` or
`one_machine`, `network` is the speed of each host's link such as `10Gb`, or empty for none.
"""

import csv
import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.plan.cost_model import Cluster, Parts, predict, read_parts
from user_error import UserError

COLUMNS = ("parts", "placement", "learners", "actors", "network", "steps_per_s")
PLACEMENTS = ("hosts", "one_machine")
UNITS = {"Kb": 1e3 / 8, "Mb": 1e6 / 8, "Gb": 1e9 / 8, "Tb": 1e12 / 8}
UNITS |= {unit.replace("b", "B"): 8 * size for unit, size in UNITS.items()}


@dataclasses.dataclass(frozen=True)
class Measured:
    """A cluster and the rate that was measured of it, in agent steps/s."""

    parts: Path
    cluster: Cluster
    steps_per_s: float


def bytes_per_s(text: str) -> float:
    """``10Gb`` is ten gigabits a second, ``1GB`` a gigabyte; nothing is no limit."""
    if not text:
        return math.inf
    number, unit = text[:-2], text[-2:]
    try:
        speed = float(number) * UNITS[unit]
        if not speed > 0:
            raise ValueError
    except (KeyError, ValueError):
        raise UserError(
            f"{text!r} is not a network speed; expected a number with {', '.join(UNITS)}, "
            "such as 10Gb for ten gigabits a second."
        ) from None
    return speed


def read_measured(path: Path) -> list[Measured]:
    """The rows of a CSV."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it is no CSV in UTF-8"
        raise UserError(f"{path} cannot be read: {reason}.") from None
    if not rows or tuple(rows[0]) != COLUMNS:
        raise UserError(f"{path}: the first line must be {','.join(COLUMNS)}, rows must follow.")
    return [_measured(path, number, row) for number, row in enumerate(rows, start=2)]


def _measured(path: Path, line: int, row: dict[str, str]) -> Measured:
    try:
        if row["placement"] not in PLACEMENTS:
            raise ValueError(
                f"placement {row['placement']!r} is not one of {', '.join(PLACEMENTS)}"
            )
        cluster = Cluster(
            learners=int(row["learners"]),
            actors=int(row["actors"]),
            network_bytes_per_s=bytes_per_s(row["network"]),
            one_machine=row["placement"] == "one_machine",
        )
        rate = float(row["steps_per_s"])
        if cluster.learners < 1 or cluster.actors < 0 or not 0 < rate < math.inf:
            raise ValueError(
                f"{cluster.learners} learners, {cluster.actors} actors, {rate:g} steps/s; expected "
                "1 learner or more, 0 actors or more, and a rate above 0"
            )
        return Measured(path.parent / row["parts"], cluster, rate)
    except (ValueError, TypeError, UserError) as error:
        raise UserError(f"{path}:{line}: {error}") from None


def errors(rows: Sequence[Measured], parts: Callable[[Path], Parts] = read_parts) -> np.ndarray:
    """Of each row: predicted over measured, less 1."""
    rates = [predict(parts(row.parts), row.cluster).rate / row.steps_per_s for row in rows]
    return np.array(rates) - 1


def table(rows: Sequence[Measured]) -> str:
    """The rows as Markdown, each with the prediction and its error."""
    lines = [
        "| parts | where | learners | actors | measured steps/s | predicted | error | limited by |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    off = errors(rows)
    for row, error in zip(rows, off, strict=True):
        prediction = predict(read_parts(row.parts), row.cluster)
        where = "one machine" if row.cluster.one_machine else "hosts"
        lines.append(
            f"| {row.parts.stem} | {where} | {row.cluster.learners} | {row.cluster.actors} | "
            f"{row.steps_per_s:,.0f} | {prediction.rate:,.0f} | {error:+.1%} | "
            f"{prediction.limited_by} |"
        )
    size = np.abs(off)
    lines.append(
        f"\nError: median {np.median(size):.1%}, largest {size.max():.1%}, over {len(rows)} rows."
    )
    return "\n".join(lines)


def fit(
    rows: Sequence[Measured],
    start: Parts,
    free: Sequence[str],
    of_row: Callable[[Path, Parts], Parts] = lambda _, tried: tried,
) -> Parts:
    """The parts with the free figures fitted to the least squared errors (of logarithms).

    One figure after another is tried a little larger and smaller; steps shrink when none helps.
    ``of_row`` gives the parts to use for a row, from its path and the parts being tried.
    """
    figures = {field.name for field in dataclasses.fields(start)} - {"about"}
    for name in free:
        if name not in figures:
            raise UserError(f"--free={','.join(free)}: {name} is not a figure of the parts to fit.")
        if getattr(start, name) in (0, math.inf):
            raise UserError(
                f"--free={','.join(free)}: the parts have no {name} to start from; give them one."
            )

    def loss(parts: Parts) -> float:
        return float(np.sum(np.log1p(errors(rows, lambda path: of_row(path, parts))) ** 2))

    best, least, step = start, loss(start), 0.5
    while step > 1e-4:
        tried = [
            dataclasses.replace(best, **{name: getattr(best, name) * factor})
            for name in free
            for factor in (1 + step, 1 / (1 + step))
        ]
        losses = [loss(one) for one in tried]
        if min(losses) < least:
            least = min(losses)
            best = tried[losses.index(least)]
        else:
            step /= 2
    return best
