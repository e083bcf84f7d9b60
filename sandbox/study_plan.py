"""What the plan of a cluster says of this machine, beside what was measured on it.

    python -m sandbox.study_plan [--out=benchmarks/measured] [--seconds=40] [--smoke]

For each training it measures the parts (`benchmarks.plan_parts`), then whole trainings of one
learner and more and more actors as processes of this machine, then the parts again. It writes
OUT/NAME.json for each, OUT/here.csv, and prints them beside what the plan says. One figure is not
measured but fitted, to the rates of the first training alone: what sharing the cores costs.
"""

import argparse
import csv
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import cost_fit, plan_parts
from benchmarks.cost_fit import Measured
from benchmarks.cost_model import Cluster, Parts, read_parts
from benchmarks.trainer import Trainer, steady_rate
from impala import config
from impala.config import Settings
from user_error import UserError

FITTED = "shared_cores"
LARGE = ("--unroll_length=20", "--batch_size=32")


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


def study(out: Path, cases: Sequence[Case], own: plan_parts.Own, seconds: float) -> str:
    """Measures everything; the table."""
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Measured] = []
    for case in cases:
        settings = config.parse(list(case.flags))
        before = plan_parts.measured(own, settings)
        for actors in case.actors:
            rate = trained(settings, actors, seconds)
            print(f"{case.name}, {actors} actors: {rate:,.0f} agent steps/s", flush=True)
            cluster = Cluster(learners=1, actors=actors, one_machine=True)
            rows.append(Measured(out / f"{case.name}.json", cluster, rate))
        parts = plan_parts.mean([before, plan_parts.measured(own, settings)])
        rows[-1].parts.write_text(plan_parts.as_json(parts))
    share(rows, cases[0])
    with open(out / "here.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([cost_fit.COLUMNS, *written(rows)])
    return cost_fit.table(rows)


def trained(settings: Settings, actors: int, seconds: float) -> float:
    """Agent steps a second of a learner with so many actors."""
    with Trainer(settings, actors, report_every_s=seconds / 4) as trainer:
        trainer.wait_for_update()
        trainer.run_for(seconds / 2)
        before = trainer.next_report()
        trainer.run_for(seconds)
        return steady_rate(before, trainer.next_report())


def share(rows: Sequence[Measured], fitted_to: Case) -> None:
    """Writes to all parts what sharing the cores leaves of them, by the rows of one case."""
    by = [row for row in rows if row.parts.stem == fitted_to.name]
    found = cost_fit.fit(by, read_parts(by[0].parts), [FITTED])
    left = round(min(1.0, getattr(found, FITTED)), 3)
    for path in {row.parts for row in rows}:
        parts: Parts = dataclasses.replace(read_parts(path), **{FITTED: left})
        path.write_text(plan_parts.as_json(parts))


def written(rows: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """The rows as ``cost_fit.read_measured`` reads them."""
    for row in rows:
        counts = (str(row.cluster.learners), str(row.cluster.actors))
        yield (row.parts.name, "one_machine", *counts, "", f"{row.steps_per_s:.0f}")


def main() -> int:
    """Runs the study."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("--out", default="benchmarks/measured", help="folder of the results")
    parser.add_argument("--seconds", type=float, default=40.0, help="measured of each training")
    parser.add_argument("--smoke", action="store_true", help="only see that it works, in seconds")
    given = parser.parse_args()
    own, seconds = plan_parts.Own(), given.seconds
    cases: Sequence[Case] = CASES
    if given.smoke:
        own = dataclasses.replace(own, repeats=1, seconds=0.05)
        cases, seconds = SMOKE, 1.0
    try:
        print(study(Path(given.out), cases, own, seconds))
    except UserError as error:
        print(f"study_plan.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
