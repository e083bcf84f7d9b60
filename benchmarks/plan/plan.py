"""Estimates a cluster before you have it: its rate, its bottleneck, and what to add next.

    python -m benchmarks plan --learners 8 --actors 360 --network 10Gb
    python -m benchmarks plan --learners 2 --actors 16 --parts my_parts.json
    python -m benchmarks plan --validate benchmarks/plan/measured/published.csv
    python -m benchmarks plan --fit rows.csv --parts start.json --free reduce_latency_s

docs/studies/scaling.md explains the model and its errors. It only knows the measured parts that
it is given: by default those of a published trainer on the hardware of its time.
"""

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path

import flags
from benchmarks.plan import cost_fit, cost_model
from benchmarks.plan.cost_fit import bytes_per_s
from benchmarks.plan.cost_model import Cluster, Parts, Prediction, predict
from user_error import UserError, exit_code

MEASURED = Path(__file__).parent / "measured"
# A change that gains less than this is not worth its host.
WORTH = 0.01


def changes(cluster: Cluster, parts: Parts) -> dict[str, tuple[Parts, Cluster]]:
    """What could be added, one thing at a time."""
    more = max(1, cluster.actors // 10)
    more_actors = dataclasses.replace(cluster, actors=cluster.actors + more)
    faster = dataclasses.replace(
        parts,
        **{name: 2 * getattr(parts, name) for name in ("learner_steps_per_s", "actor_steps_per_s")},
    )
    if cluster.one_machine:
        return {
            "twice the cores": (faster, cluster),
            _counted(more, "more actor"): (parts, more_actors),
        }
    shared = cluster.shared_bytes_per_s
    shared = parts.shared_bytes_per_s if shared is None else shared
    return {
        _counted(more, "more actor"): (parts, more_actors),
        "one more learner": (
            parts,
            dataclasses.replace(cluster, learners=cluster.learners + 1),
        ),
        "twice the speed of each host's link": (
            parts,
            dataclasses.replace(cluster, network_bytes_per_s=2 * cluster.network_bytes_per_s),
        ),
        "twice the network between the hosts": (
            parts,
            dataclasses.replace(cluster, shared_bytes_per_s=2 * shared),
        ),
        "learners twice as fast": (
            dataclasses.replace(parts, learner_steps_per_s=2 * parts.learner_steps_per_s),
            cluster,
        ),
    }


def gains(parts: Parts, cluster: Cluster) -> dict[str, float]:
    """How much faster the cluster would be with each change, the best first."""
    now = predict(parts, cluster).rate
    found = {what: predict(*one).rate / now - 1 for what, one in changes(cluster, parts).items()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def report(parts: Parts, cluster: Cluster) -> str:
    """The prediction in words."""
    prediction = predict(parts, cluster)
    rows = [
        (name, f"{limit:,.0f} agent steps/s" + "  ← least" * (name == prediction.limited_by))
        for name, limit in sorted(prediction.limits.items(), key=lambda item: item[1])
        if math.isfinite(limit)
    ]
    rows += [("", ""), ("expected", f"{prediction.rate:,.0f} agent steps/s")]
    rows += [("limited by", prediction.limited_by), ("an update takes", _update(prediction))]
    if not cluster.one_machine:
        share = cost_model.efficiency(parts, cluster)
        rows.append(("efficiency", f"{share:.2f} of as many learners alone, with as many actors"))
        rows.append(("to fill these learners", f"{_filling(parts, prediction):,} actors"))
    if prediction.weights_share > 0:
        rows.append(("weights take", _weights(prediction.weights_share)))
    lines = [f"  {name:<26}{text}".rstrip() for name, text in rows]
    return "\n".join(
        [_described(cluster), f"by: {parts.about}", "", *lines, *_next(parts, cluster)]
    )


def _described(cluster: Cluster) -> str:
    what = f"{_counted(cluster.learners, 'learner')}, {_counted(cluster.actors, 'actor')}"
    if cluster.one_machine:
        return f"{what}, on one machine"
    if math.isinf(cluster.network_bytes_per_s):
        return f"{what}, links without limit"
    return f"{what}, {8e-9 * cluster.network_bytes_per_s:g} Gb/s to each host"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _filling(parts: Parts, prediction: Prediction) -> int:
    """How many actors play as much as the learners can train on."""
    return math.ceil(prediction.limits[cost_model.LEARNERS] / parts.actor_steps_per_s)


def _update(prediction: Prediction) -> str:
    text = f"{1e3 * prediction.update_s:,.1f} ms"
    if prediction.reduce_s:
        by = f"adding up gradients by a {prediction.reduced_by}"
        text += f", {1e3 * prediction.reduce_s:,.1f} ms of it {by}"
    return text


def _weights(share: float) -> str:
    late = "" if share <= 1 else f": they come {share:.1f} times as late, so policy lag grows"
    return f"{share:.0%} of a learner's link outwards{late}"


def _next(parts: Parts, cluster: Cluster) -> list[str]:
    found = gains(parts, cluster)
    best, gain = next(iter(found.items()))
    if gain < WORTH:
        return ["", "No single change makes it faster: two limits are close together."]
    return [
        "",
        f"Add next: {best} ({gain:+.0%}).",
        *(f"  {what:<38}{one:>+7.0%}" for what, one in found.items()),
    ]


def _parser() -> argparse.ArgumentParser:
    parser = flags.empty_parser("python -m benchmarks plan", __doc__ or "")
    parser.add_argument("--learners", type=int, default=1, help="that train together (default: 1)")
    parser.add_argument(
        "--actors", type=int, default=1, help="processes that play, in all (default: 1)"
    )
    parser.add_argument("--network", default="", help="of each host's link, such as 10Gb")
    parser.add_argument(
        "--shared_network", default="", help="speed of the network between all hosts"
    )
    parser.add_argument("--one_machine", action="store_true", help="all on one machine")
    parser.add_argument(
        "--parts",
        type=Path,
        default=MEASURED / "published.json",
        help="JSON of the parts' speeds alone (default: a published trainer's)",
    )
    parser.add_argument("--validate", type=Path, help="CSV of measured rates to compare with")
    parser.add_argument("--fit", type=Path, help="CSV of measured rates to fit --parts to")
    parser.add_argument("--free", default="", help="figures of --parts that --fit may move")
    return parser


def _answer(given: argparse.Namespace) -> str:
    if given.validate:
        return cost_fit.table(cost_fit.read_measured(given.validate))
    parts = cost_model.read_parts(given.parts)
    if given.fit and not given.free:
        raise UserError("--fit needs --free: names of figures in --parts, separated by commas.")
    if given.fit:
        rows = cost_fit.read_measured(given.fit)
        found = cost_fit.fit(rows, parts, given.free.split(","))
        figures = dataclasses.asdict(found).items()
        finite = {name: value for name, value in figures if value != math.inf}
        return json.dumps(finite, indent=1, ensure_ascii=False)
    if given.learners < 1 or given.actors < 1:
        raise UserError("--learners and --actors must be 1 or more.")
    cluster = Cluster(
        learners=given.learners,
        actors=given.actors,
        network_bytes_per_s=bytes_per_s(given.network),
        shared_bytes_per_s=bytes_per_s(given.shared_network) if given.shared_network else None,
        one_machine=given.one_machine,
    )
    return report(parts, cluster)


def main() -> int:
    """Prints the answer; returns the exit code."""
    return exit_code("plan", lambda: print(_answer(_parser().parse_args())))


if __name__ == "__main__":
    sys.exit(main())
