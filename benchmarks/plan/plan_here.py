"""Compares the plan's predictions for this machine with measurements.

  python -m benchmarks plan_here
  python -m benchmarks plan_here --smoke --repeats=1 --seconds=0.05 --train_s=1

For each training it measures the parts (`benchmarks plan_parts`), then whole trainings of one
learner and more and more actors as processes of this machine, then the parts again, except with
--smoke. It writes NAME.json for each and here.csv, and prints them beside the predictions. One
figure is not measured but fitted, the same for all of these trainings: the cost of sharing the
cores.
"""

import csv
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.plan import cost_fit, plan_parts
from benchmarks.plan.cost_fit import Measured
from benchmarks.plan.cost_model import Cluster, Parts, read_parts
from benchmarks.tools import common
from benchmarks.tools.trainer import rate_of
from flags import setting
from trainer.settings import config

RESULTS, SMOKE_RESULTS = "benchmarks/plan/measured", "logs/plan_here"
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
    cases: Sequence[Case] = SMOKE if own.smoke else CASES
    out, rows = Path(own.results or (SMOKE_RESULTS if own.smoke else RESULTS)), []
    out.mkdir(parents=True, exist_ok=True)
    own = dataclasses.replace(own, results=str(out))
    for case in cases:
        settings = config.parse(list(case.flags))
        before = plan_parts.measured(own, settings)
        for actors in case.actors:
            rate = rate_of(settings, actors, own.train_s)
            common.progress(f"{case.name}, {actors} actors: {rate:,.0f} agent steps/s")
            cluster = Cluster(learners=1, actors=actors, one_machine=True)
            rows.append(Measured(out / f"{case.name}.json", cluster, rate))
        again = [] if own.smoke else [plan_parts.measured(own, settings)]
        parts = plan_parts.mean([before, *again])
        rows[-1].parts.write_text(plan_parts.as_json(parts))
        write(rows, out / "here.csv")
    share(rows)
    # Read back as the plan reads it, so that both agree to the last digit.
    print(cost_fit.table(cost_fit.read_measured(out / "here.csv")))


def share(rows: Sequence[Measured]) -> None:
    """Fits the speed that sharing leaves of the cores, and writes it to all parts."""
    parts = {row.parts: read_parts(row.parts) for row in rows}

    def sharing(path: Path, tried: Parts) -> Parts:
        return dataclasses.replace(parts[path], shared_cores=tried.shared_cores)

    found = cost_fit.fit(rows, parts[rows[0].parts], ["shared_cores"], sharing).shared_cores
    left = round(min(1.0, found), 3)
    for path, one in parts.items():
        path.write_text(plan_parts.as_json(dataclasses.replace(one, shared_cores=left)))


def write(rows: Sequence[Measured], path: Path) -> None:
    """Writes the rows as ``cost_fit.read_measured`` reads them."""
    with open(path, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(cost_fit.COLUMNS)
        for row in rows:
            counts = (row.cluster.learners, row.cluster.actors)
            table.writerow((row.parts.name, "one_machine", *counts, "", f"{row.steps_per_s:.0f}"))


if __name__ == "__main__":
    sys.exit(common.run("plan_here", measure))
