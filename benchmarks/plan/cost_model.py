"""A cost model: from the speed of a cluster's parts to the speed of the whole.

A cluster trains as fast as the slowest of these allows, each in agent steps/s:

- its actors together, each acting as fast as one alone;
- its learners, each updating from batches that are always ready, plus the time in which they
  add up gradients, around a ring or along a tree;
- the link into each learner, which carries all unrolls of its actors;
- the network between all hosts, where it carries less than all their links together.

On one machine acting, learning and moving unrolls compete for the cores, so their times add
up; and processes that share caches and cores do less than each measured alone. An actor
there emulates and infers in turn, so that a few actors leave cores idle and do not compete.
Weights go out in the other direction of the learner's link. They delay nobody: if there is no
room, actors continue with older ones, which shows as policy lag.
"""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from user_error import UserError

RING, TREE = "ring", "tree"
MAY_BE_0 = ("weights_bytes", "gradient_bytes", "reduce_latency_s")  # of the parts


@dataclasses.dataclass(frozen=True)
class Parts:
    """Measurements of the parts, each alone; read from a JSON file with these names."""

    about: str  # what was measured, and where: level, agent, precision, machine
    actor_steps_per_s: float  # one actor, or on one machine all of its cores acting
    learner_steps_per_s: float  # one learner alone, or on one machine all of its cores learning
    batch_steps: float  # new agent steps in a learner's batch
    step_bytes: float  # that an actor sends for an agent step
    weights_bytes: float  # that an actor fetches
    steps_per_fetch: float  # agent steps that an actor plays between two fetches
    gradient_bytes: float  # that a learner adds to the others'
    receive_bytes_per_s: float = math.inf  # most that a learner takes in, whatever the network
    reduce_latency_s: float = 0.0  # of each message of a reduction
    shared_bytes_per_s: float = math.inf  # most that the network between all hosts carries
    shared_cores: float = 1.0  # fraction of the cores' speed left when several processes share them
    lone_actor_steps_per_s: float = math.inf  # one actor on half of the cores of one machine


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Hosts and network."""

    learners: int
    actors: int  # 0: learners use synthetic unrolls
    network_bytes_per_s: float = math.inf  # of each host's link, each way
    shared_bytes_per_s: float | None = None  # None: as in the measured parts
    one_machine: bool = False


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The rate, and what each part alone would allow; all in agent steps/s."""

    rate: float
    limits: dict[str, float]
    update_s: float
    reduce_s: float
    reduced_by: str
    weights_share: float  # fraction of a learner's link for weights; above 1 they come late

    @property
    def limited_by(self) -> str:
        """The part that allows least."""
        return min(self.limits, key=self.limits.__getitem__)


ACTORS, LEARNERS, CORES = "actors", "learners", "cores"
UNROLLS_IN, SHARED = "unrolls into a learner", "network between the hosts"


def predict(parts: Parts, cluster: Cluster) -> Prediction:
    """The rate at which the cluster would train, and its limits."""
    network = cluster.network_bytes_per_s
    seconds = reductions(parts, cluster.learners, network)
    reduced_by = min(seconds, key=seconds.__getitem__)
    reduce_s = seconds[reduced_by]
    if cluster.one_machine:
        # All learners together have the cores that one alone would have.
        update_s = cluster.learners * parts.batch_steps / parts.learner_steps_per_s + reduce_s
        learning = cluster.learners * parts.batch_steps / update_s
        left = parts.shared_cores if cluster.learners + cluster.actors > 1 else 1.0
        step_s, limits = 1 / learning, {}
        if cluster.actors:
            step_s += 1 / parts.actor_steps_per_s + parts.step_bytes / parts.receive_bytes_per_s
            limits[ACTORS] = cluster.actors * parts.lone_actor_steps_per_s
        limits[CORES] = left / step_s
        network = math.inf
    else:
        shared = cluster.shared_bytes_per_s
        shared = parts.shared_bytes_per_s if shared is None else shared
        update_s = parts.batch_steps / parts.learner_steps_per_s + reduce_s
        limits = {LEARNERS: cluster.learners * parts.batch_steps / update_s}
        if cluster.actors:
            receive = min(network, parts.receive_bytes_per_s)
            limits[ACTORS] = cluster.actors * parts.actor_steps_per_s
            limits[UNROLLS_IN] = cluster.learners * receive / parts.step_bytes
            limits[SHARED] = shared / parts.step_bytes
    rate = min(limits.values())
    fetches_per_s = rate / cluster.learners / parts.steps_per_fetch
    return Prediction(
        rate=rate,
        limits=limits,
        update_s=update_s,
        reduce_s=reduce_s,
        reduced_by=reduced_by,
        weights_share=fetches_per_s * parts.weights_bytes / network,
    )


def reductions(parts: Parts, learners: int, network_bytes_per_s: float) -> dict[str, float]:
    """Seconds in which learners add up their gradients, each way of doing it.

    Around a ring each sends 2(L - 1) messages of an L-th of the gradient; along a tree the
    whole of it goes up and down its levels.
    """
    if learners == 1:
        return {RING: 0.0}
    whole = parts.gradient_bytes / network_bytes_per_s
    messages, levels = 2 * (learners - 1), 2 * math.ceil(math.log2(learners))
    return {
        RING: messages * (parts.reduce_latency_s + whole / learners),
        TREE: levels * (parts.reduce_latency_s + whole),
    }


def efficiency(parts: Parts, cluster: Cluster) -> float:
    """The rate relative to as many clusters of one learner with its part of the actors."""
    alone = dataclasses.replace(
        cluster, learners=1, actors=max(1, round(cluster.actors / cluster.learners))
    )
    return predict(parts, cluster).rate / (cluster.learners * predict(parts, alone).rate)


def read_parts(path: Path) -> Parts:
    """Parts from a JSON file; ``UserError`` if it is not valid."""
    try:
        given: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read as JSON: {reason}.") from None
    if not isinstance(given, dict):
        raise UserError(f"{path}: expected a JSON object with names and values.")
    fields = {field.name: field for field in dataclasses.fields(Parts)}
    needed = {name for name, one in fields.items() if one.default is dataclasses.MISSING}
    wrong = sorted(set(given) - set(fields)) + sorted(needed - set(given))
    if wrong:
        raise UserError(
            f"{path}: {', '.join(wrong)}: expected the names {', '.join(fields)}, of which "
            f"{', '.join(sorted(set(fields) - needed))} may be left out."
        )
    for name, value in given.items():
        if name == "about":
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        fits = is_number and (0 <= value < math.inf or value == fields[name].default)
        if not fits or (not value and name not in MAY_BE_0):
            kind = "a number that is not negative" if name in MAY_BE_0 else "a number above 0"
            raise UserError(f"{path}: {name} is {value!r}; expected {kind}.")
    return Parts(**given)
