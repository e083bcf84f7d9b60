"""Which trials an experiment has: those of its mode, of its search, and its finals."""

from collections.abc import Sequence
from typing import Any

from lab.specs import frozen
from lab.specs import spec as specs
from lab.trials.folder import DONE, FAILED, OPEN, Experiment, Trial, best
from lab.trials.proposing import Proposals, total
from trainer.settings import config
from trainer.settings.config import Settings

PROPOSED, FINAL, DEFAULT, SINGLE, BENCHMARK = "proposed", "final", "default", "single", "benchmark"


def fixed(experiment: Experiment) -> list[Trial]:
    """The trials of an experiment that does not search, as they are before they run."""
    spec = experiment.spec
    if experiment.mode == "search":
        return []
    if experiment.mode != "benchmark":
        return [Trial(0, SINGLE, dict(spec.settings), frozen.seeds(spec), label=spec.name)]
    found: list[Trial] = []
    for name, content in spec.frozen["specs"].items():
        for level in spec.frozen["levels"]:
            one = specs.for_level(name, content, level, str(experiment.folder))
            seeds, values = frozen.seeds(one), {"spec": name, "level": level}
            label = f"{name} on {level}"
            found.append(Trial(len(found), BENCHMARK, one.settings, seeds, values, label=label))
    return found


def expected(experiment: Experiment, trials: list[Trial]) -> int:
    """How many trials there will be in all; of draws that fail there may be fewer finals."""
    if experiment.mode != "search":
        return len(fixed(experiment))
    meta, searched = experiment.spec.meta, experiment.spec.searched
    count = total(meta, searched)
    proposed = [one for one in trials if one.kind == PROPOSED]
    if len(proposed) == count and not any(one.state == OPEN for one in proposed):
        return len(trials) + len(finals(experiment, trials))
    return count + (min(meta.finalists, count) + 1 if meta.finalists else 0)


def propose(experiment: Experiment, trials: list[Trial], proposals: Proposals) -> Trial | None:
    """The next trial of a search; None once there are all."""
    earlier = [one.drawn for one in trials if one.kind == PROPOSED]
    if len(earlier) >= proposals.total:
        return None
    spec = experiment.spec
    proposal, drawn, values = proposals.propose(len(earlier), earlier)
    return Trial(
        len(trials), PROPOSED, _fitting(spec.settings | values),
        frozen.seeds(spec), values, proposal=proposal, drawn=drawn,
    )  # fmt: skip


def _fitting(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a spec and what was drawn, without those that the algorithm does not have."""
    known = {field.name for field in config.fields(str(settings.get("algorithm", "impala")))}
    return {name: value for name, value in settings.items() if name in known}


def finals(experiment: Experiment, trials: list[Trial]) -> list[Trial]:
    """The best trials again with new seeds, beside the spec's own settings."""
    spec = experiment.spec
    proposed = [one for one in trials if one.kind == PROPOSED]
    chosen = best(proposed)[: spec.meta.finalists]
    if not chosen or any(one.state == OPEN for one in proposed):
        return []
    seeds, number = frozen.final_seeds(spec), len(trials)
    found = [
        Trial(number + place, FINAL, dict(one.settings), seeds, dict(one.values), of=one.number)
        for place, one in enumerate(chosen)
    ]
    usual = Settings(**spec.settings).flat()
    # What another algorithm has that is searched has no value here.
    own = {one.name: usual[one.name] for one in spec.searched if one.name in usual}
    default = Trial(
        number + len(found), DEFAULT, dict(spec.settings), seeds, own, label="the spec's own"
    )
    known = {(one.kind, one.of) for one in trials if one.kind in (FINAL, DEFAULT)}
    fresh = [one for one in (*found, default) if (one.kind, one.of) not in known]
    for place, one in enumerate(fresh):  # after a kill between two of them
        one.number = number + place
    return fresh


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Trials that came to their end: the winner, then the others, the best first.

    The winner is the best of those with new seeds; without any, the best of all.
    """
    done = best(trials)
    winner = next((one for one in done if one.kind in (FINAL, DEFAULT)), None)
    return sorted(done, key=lambda one: one is not winner)


def playable(trials: Sequence[Trial]) -> list[Trial]:
    """Trials that came to their end: the ranked ones, then those of which no return is known."""
    first = ranked(trials)
    return [*first, *(one for one in trials if one.state == DONE and one not in first)]


def kept(experiment: Experiment, trials: Sequence[Trial]) -> set[int]:
    """The trials that keep all they have on disk, the winner among them.

    In a benchmark they are as many of each level: levels cannot be compared. What neither searches
    nor compares has one trial, which keeps all it has, however it ended.
    """
    if experiment.mode not in ("search", "benchmark"):
        return {one.number for one in trials}
    groups: dict[Any, list[Trial]] = {}
    for one in trials:
        groups.setdefault(one.values["level"] if one.kind == BENCHMARK else None, []).append(one)
    most = experiment.spec.meta.keep
    return {one.number for those in groups.values() for one in playable(those)[:most]}


def result(experiment: Experiment, trials: list[Trial]) -> dict[str, Any]:
    """What came out of a finished experiment."""
    found = None if experiment.mode == "benchmark" else next(iter(ranked(trials)), None)
    own = next((one for one in trials if one.kind == DEFAULT), None)
    return {
        "state": "finished",
        "trials": len(trials),
        "failed": [one.number for one in trials if one.state == FAILED],
        "winner": found.number if found else None,
        "confirmed": bool(found and found.kind in (FINAL, DEFAULT)),
        "winner_objective": found.results["objective"] if found else None,
        "default_objective": own.results.get("objective") if own else None,
    }
