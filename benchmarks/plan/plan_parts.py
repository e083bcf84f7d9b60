"""Measures on this machine the parts of a training that the cluster plan needs.

  python -m benchmarks plan_parts --agent_name=ResNetAgent
  python -m benchmarks plan --parts benchmarks/results/plan_parts.json --learners 2 --actors 16

It measures what all cores of this machine do when they only act, and when they only learn, what
one actor does with half of them, and what a learner takes in from actors that only send. So the
plan's hosts are machines like this one: an actor is a host of actors, a learner is a host that
learns.
"""

import dataclasses
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.parts import components
from benchmarks.plan.cost_model import Parts
from benchmarks.tools import common, files, ways
from benchmarks.tools.common import Options
from flags import setting
from trainer.machine import provenance
from trainer.settings import checks
from trainer.settings.config import Settings

MEASURED = ("acting", "learning")
SENDERS = 2
TRANSPORT = "tensorflow"


@dataclasses.dataclass(frozen=True)
class Own(Options):
    repeats: int = setting(3, "Measuring", "times that each is measured", least=1)
    seconds: float = setting(2.0, "Measuring", "for each measurement", above=0)


def measure(arguments: list[str]) -> None:
    """Prints the parts and writes them."""
    own, settings = common.parse(Own, "plan_parts", __doc__, arguments, trainer=True)
    checks.check(settings)
    settings = common.in_a_cluster(settings, 0)
    path = Path(own.results) / "plan_parts.json"
    written = as_json(measured(own, settings))
    files.write(path, written)
    print(f"{written}\n{path} written")


def measured(own: Own, settings: Settings) -> Parts:
    """The parts as they are now."""
    rates = [
        ways.measure(settings, way, MEASURED, own.seconds, own.repeats, own.results)
        for way in ways.full_ways()
    ]
    lone = ways.measure(
        settings, ways.half_way(), ("acting",), own.seconds, own.repeats, own.results
    )
    bytes_of, step = rates[0].sizes, settings.actors.unroll_length
    arriving = components.between_processes(settings, rates[0], SENDERS, own.seconds, own.repeats)[
        TRANSPORT
    ]
    return Parts(
        about=f"{components.what(settings, rates[0])}; "
        f"{provenance.machine()}, {rates[0].precision}",
        actor_steps_per_s=ways.best(rates, "acting")[1].median,
        learner_steps_per_s=ways.best(rates, "learning")[1].median,
        batch_steps=rates[0].batch_steps,
        step_bytes=bytes_of["block"] / step,
        weights_bytes=bytes_of["weights"],
        steps_per_fetch=rates[0].environments * step,
        gradient_bytes=bytes_of["gradient"],
        receive_bytes_per_s=arriving.median * bytes_of["block"] / step,
        lone_actor_steps_per_s=lone.rates["acting"].median,
    )


def mean(several: Sequence[Parts]) -> Parts:
    """The parts of one training, measured several times."""
    rates = [field.name for field in dataclasses.fields(Parts) if "_per_s" in field.name]
    means = {name: statistics.mean(getattr(one, name) for one in several) for name in rates}
    return dataclasses.replace(several[0], **means)


def as_json(parts: Parts) -> str:
    """JSON for ``cost_model.read_parts``, without defaults."""
    figures = {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in dataclasses.asdict(parts).items()
        if value != getattr(Parts, name, None)
    }
    return json.dumps(figures, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(common.run("plan_parts", measure))
