"""The tables of an experiment, as CSV: of each session, each trial, and the whole."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.trials.folder import Experiment, Trial, best
from trainer.reporting.wording import by_level, number
from trainer.storage.records import write_whole

RETURN = "mean_episode_return"
OF_ONE = f"{RETURN}/"
V1 = ("strength", "speed", "stability", "consistency")
V4 = ("strength", "frame_efficiency", "update_efficiency", "stability", "consistency")


def write_session(path: Path, rows: Sequence[Mapping[str, Any]], levels: Sequence[str]) -> None:
    """All reports of a session: a column for each figure, and a row for each body.

    As in SLM Lab, ``a``, ``e`` and ``b`` count agents, environments (here levels) and bodies. Only
    the mean return is a body's own.
    """
    places = _places(list(by_level(dict(rows[-1]))), levels) if rows else {}
    made = [
        {**place, **{key: one for key, one in row.items() if not key.startswith(OF_ONE)}, **own}
        for row in rows
        for place, own in (
            [(place, {RETURN: row.get(f"{OF_ONE}{name}")}) for name, place in places.items()]
            or [({"a": 0, "e": 0, "b": 0}, {})]
        )
    ]
    write(path, list(dict.fromkeys(name for row in made for name in row)), made)


def _places(names: Sequence[str], levels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The level and body of each thing that has returns of its own, by its name."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        of = [one for one in levels if name == one or name.startswith(f"{one}:")]
        level = levels.index(of[0]) if of else 0
        body = sum(place["e"] == level for place in found.values())
        found[name] = {"a": 0, "e": level, "b": body, "body": name}
    return found


def write_fitness(path: Path, results: Mapping[str, Any], seeds: Sequence[int]) -> None:
    """The fitness of each session of a trial, and last of the trial itself."""
    rows = [
        {"session": place, "seed": seeds[place], **fitness_columns(one)}
        for place, one in enumerate(results.get("sessions", []))
    ]
    rows.append({"session": "trial", "seed": "", **fitness_columns(results)})
    write(path, list(rows[-1]), rows)


def fitness_columns(results: Mapping[str, Any]) -> dict[str, Any]:
    """The fitness of both kinds as columns; empty where it is not known."""
    v1, v4 = results.get("v1") or {}, results.get("v4") or {}
    return {
        "best_return": results.get("best_return"),
        "final_return": results.get("final_return"),
        "fitness": v1.get("fitness"),
        **{f"v1_{name}": v1.get(name) for name in V1},
        **{f"v4_{name}": v4.get(name) for name in V4},
    }


def experiment_rows(trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """A row for each trial: the best first, then those that did not come to their end."""
    trials = list(trials)
    ranked = best(trials)
    rest = [one for one in trials if one not in ranked]
    searched = list(dict.fromkeys(name for one in trials for name in one.values))
    return [
        {
            "trial": one.number,
            "kind": one.kind,
            "of": one.of,
            "state": one.state,
            **{name: one.values.get(name) for name in searched},
            "objective": one.results.get("objective"),
            **fitness_columns(one.results),
            "frames": one.results.get("frames"),
            "seconds": one.results.get("seconds"),
            "seeds": " ".join(map(str, one.seeds)),
            "reason": one.reason,
        }
        for one in (*ranked, *rest)
    ]


def write_experiment(experiment: Experiment, trials: Sequence[Trial]) -> None:
    """The table of all trials."""
    rows = experiment_rows(trials)
    write(experiment.file("experiment_df.csv"), list(rows[0]) if rows else [], rows)


def write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a table whole."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.getvalue().encode())


def _cell(value: Any) -> Any:
    return f"{value:.10g}" if isinstance(value, float) else value


def markdown(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A table for people and for documents."""
    lines = [f"| {' | '.join(columns)} |", f"| {' | '.join(['---'] * len(columns))} |"]
    for row in rows:
        cells = [row.get(name) for name in columns]
        lines.append(f"| {' | '.join('–' if one is None else str(_short(one)) for one in cells)} |")
    return "\n".join(lines)


def _short(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value
