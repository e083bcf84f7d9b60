"""Compares the plan's predictions for this machine with measurements.

  python -m benchmarks plan_here
  python -m benchmarks plan --validate benchmarks/results/plan_here/here.csv
  python -m benchmarks plan_here --smoke --repeats=1 --seconds=0.05 --train_s=1

For each training it measures the parts (`benchmarks plan_parts`), then whole trainings of one
learner and more and more actors as processes of this machine, then the parts again, except with
--smoke. It prints them beside the predictions. One figure is not measured but fitted, the same for
all of these trainings: the cost of sharing the cores. After each training it writes NAME.json of
all so far and here.csv; those of the guide, in benchmarks/plan/measured, stay as they are.
"""

import csv
import dataclasses
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.plan import cost_fit, plan_parts
from benchmarks.plan.cost_fit import Measured
from benchmarks.plan.cost_model import Cluster, Parts
from benchmarks.tools import common, files
from benchmarks.tools.trainer import rate_of
from flags import setting
from trainer.settings import config

RESULTS, SMOKE_RESULTS = "benchmarks/results/plan_here", "logs/plan_here"
LARGE = ("--unroll_length=20", "--batch_size=32", "--envs_per_actor=10")


@dataclasses.dataclass(frozen=True)
class Case:
    """A training, and the numbers of actors that it is measured with."""

    name: str
    flags: Sequence[str]
    actors: Sequence[int] = (2,)


CASES = (
    Case("pong", LARGE, (1, 2, 3, 4)),
    Case("pong-float32", (*LARGE, "--precision=float32")),
    Case("pong-many-environments", (*LARGE, "--envs_per_actor=32")),
    Case("pong-resnet", (*LARGE, "--agent_name=ResNetAgent")),
    Case("breakout", (*LARGE, "--level_name=BreakoutNoFrameskip-v4")),
    Case("pong-short-unrolls", ()),
)
SMOKE = (Case("cartpole", ("--level_name=CartPole-v1", "--envs_per_actor=4"), (1,)),)


@dataclasses.dataclass(frozen=True)
class Own(plan_parts.Own):
    results: str = setting(
        "", "Measuring", f"folder for NAME.json and here.csv; default: {RESULTS}, of --smoke logs/"
    )
    train_s: float = setting(40.0, "Measuring", "measured of each training", above=0)
    smoke: bool = setting(False, "Measuring", "one small training, to see that it works")


def measure(arguments: list[str]) -> None:
    """Measures everything; prints the table."""
    own, _ = common.parse(Own, "plan_here", __doc__, arguments)
    out = files.folder(own.results or (SMOKE_RESULTS if own.smoke else RESULTS))
    own = dataclasses.replace(own, results=str(out))
    parts: dict[Path, Parts] = {}
    rows: list[Measured] = []
    for case in SMOKE if own.smoke else CASES:
        path = out / f"{case.name}.json"
        parts[path], rates = measured(own, case)
        for actors, rate in rates.items():
            rows.append(Measured(path, Cluster(1, actors, one_machine=True), rate))
        write(out, share(parts, rows), rows)  # a stopped one leaves what fits together
    # Read back as the plan reads it, so that both agree to the last digit.
    print(cost_fit.table(cost_fit.read_measured(out / "here.csv")))


def measured(own: Own, case: Case) -> tuple[Parts, dict[int, float]]:
    """A training's parts, and its agent steps a second by the number of actors."""
    settings = config.parse([*case.flags, f"--seed={own.seed}"])
    parts, rates = [plan_parts.measured(own, settings)], {}
    for actors in case.actors:
        rates[actors] = rate_of(common.in_a_cluster(settings, actors), actors, own.train_s)
        common.progress(f"{case.name}, {actors} actors: {rates[actors]:,.0f} agent steps/s")
    if not own.smoke:
        parts.append(plan_parts.measured(own, settings))
    return plan_parts.mean(parts), rates


def share(parts: Mapping[Path, Parts], rows: Sequence[Measured]) -> dict[Path, Parts]:
    """All parts with the speed that sharing leaves of the cores, which is fitted to the rows."""

    def sharing(path: Path, tried: Parts) -> Parts:
        return dataclasses.replace(parts[path], shared_cores=tried.shared_cores)

    found = cost_fit.fit(rows, parts[rows[0].parts], ["shared_cores"], sharing).shared_cores
    left = round(min(1.0, found), 3)
    return {path: dataclasses.replace(one, shared_cores=left) for path, one in parts.items()}


def write(out: Path, parts: Mapping[Path, Parts], rows: Sequence[Measured]) -> None:
    """Writes parts and rows as ``cost_fit.read_measured`` reads them."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(cost_fit.COLUMNS)
    for row in rows:
        counts = (row.cluster.learners, row.cluster.actors)
        table.writerow((row.parts.name, "one_machine", *counts, "", f"{row.steps_per_s:.0f}"))
    for path, one in parts.items():
        files.write(path, plan_parts.as_json(one))
    files.write(out / "here.csv", text.getvalue())


if __name__ == "__main__":
    sys.exit(common.run("plan_here", measure))
