"""Starts a plan on Kubernetes: creates its objects, and waits until the learners listen."""

import functools
import time
import uuid
from collections.abc import Collection
from pathlib import Path

import credentials
from cluster import record as records
from cluster import show
from cluster.actions.next_steps import failure, print_next_steps
from cluster.actions.seen import Seen
from cluster.backends.kubernetes import folder, looking, manifests, stopping
from cluster.backends.kubernetes.api import Cluster, KubernetesAway, KubernetesFailed
from cluster.backends.kubernetes.model import RUN_ID, RUN_LABEL, KubernetesPlan, Manifest
from cluster.backends.kubernetes.plan import key_of
from cluster.backends.patience import patiently
from cluster.model import Host, Place
from cluster.options import Options
from cluster.record import Part, Record

LOOK_EVERY_S = 0.5
# A pod that waits for so long, for a node or its image, may wait for hours.
WAITS_S = 30.0


def record_of(plan: KubernetesPlan, cluster: Cluster) -> Record:
    """A new run's record, written before its objects exist: they are found by their label."""
    place = {one.name: Place(Host(one.node, 22), "", "") for one in plan.processes}
    parts = [Part(one.name, one.job, place[one.name], one.parts) for one in plan.processes]
    return Record(
        uuid.uuid4().hex,
        plan.logdir,
        "",
        tuple(parts),
        (),
        "kubernetes",
        plan.jobs,
        namespace=cluster.namespace,
        context=cluster.context,
    )


def make_credentials(plan: KubernetesPlan) -> None:
    """Creates the credentials that are missing, and reads them, so that a damaged one is found."""
    if plan.secrets:
        made = Path(plan.logdir) / credentials.FOLDER
        credentials.make(made)
        credentials.read(str(made / credentials.LEARNER), of_learner=True)


def start(plan: KubernetesPlan, options: Options, cluster: Cluster) -> int:
    """Creates the plan's objects; deletes them again if one cannot be created or fails."""
    make_credentials(plan)  # first: if that fails, the former run's record stays
    record = record_of(plan, cluster)
    records.write(record, {})
    folder.write(plan, record.run_id, cluster.namespace)
    seen = None
    try:
        with show.console().status("creating, and waiting for the learners to listen"):
            problems, refused = _create(plan, record, options, cluster)
            if record.parts[0].name not in refused:
                found, seen = _wait(record, options, refused, cluster)
                problems += found
    except BaseException:
        stopping.stop(record, cluster, options.action)
        raise
    if problems and not (options.allow_partial and seen and seen.is_learning):
        print("Not everything started, so the run is stopped again:")
        print("\n".join(problems))
        stopping.stop(record, cluster, options.action)
        return 1
    assert seen
    if problems:
        print("Not everything started; the rest keeps running:")
        print("\n".join(problems))
    if not seen.is_learning:
        print("The learners ended at once, without an error:")
        for one in seen.parts:  # whose logs go with their pods
            if one.part.job == "learner":
                print("".join(f"  | {line}\n" for line in one.last_lines), end="")
        stopping.stop(record, cluster, options.action)
        return 0
    print_next_steps(plan.logdir, seen, [])
    return 0


def _create(
    plan: KubernetesPlan, record: Record, options: Options, cluster: Cluster
) -> tuple[list[str], set[str]]:
    """Creates the objects; returns why some were refused, and the processes that do not come."""
    problems: list[str] = []
    refused: set[str] = set()
    jobs = dict(plan.jobs)
    marks = manifests.labels(plan.name, "learner")
    marks = {name: text.replace(RUN_ID, record.run_id) for name, text in marks.items()}
    for one in [*folder.secrets(plan, marks), *folder.of_run(plan, record.run_id)]:
        create = functools.partial(_create_once, one, record, cluster, [])
        try:
            patiently(create, KubernetesAway, options.patience)
        except KubernetesFailed as error:
            if error.status == 409 and one["kind"] == "PersistentVolumeClaim":
                continue  # of an earlier run in this folder, which this one continues
            problems.append(f"  {one['kind']} {one['metadata']['name']}: {error}")
            if not (options.allow_partial and _may_lack(one, plan)):
                return problems, {one.name for one in plan.processes}
            refused.update(jobs.get(key_of(one), ()))
    return problems, refused


def _create_once(one: Manifest, record: Record, cluster: Cluster, tries: list[bool]) -> None:
    """Creates an object, unless the cluster did so the time before, and its answer was lost."""
    if tries:
        there = cluster.find(one["kind"], one["metadata"]["name"])
        if there and there["metadata"].get("labels", {}).get(RUN_LABEL) == record.run_id:
            return
    tries.append(True)
    cluster.create(one)


def _may_lack(one: Manifest, plan: KubernetesPlan) -> bool:
    """Whether learners can do without an object: actors, or a second protection."""
    if one["kind"] == "NetworkPolicy":
        return bool(plan.secrets)  # else it is the only one
    return key_of(one) in [key for key, _ in plan.jobs[1:]]


def _wait(
    record: Record, options: Options, refused: Collection[str], cluster: Cluster
) -> tuple[list[str], Seen]:
    """Waits until the learners listen, or for long enough to see that they wait for a node.

    Why those do not come that were ``refused`` is known already.
    """
    started = time.monotonic()
    learners = [part.name for part in record.parts if part.job == "learner"]
    while True:
        seen = looking.look(record, cluster)
        problems = [
            failure(one)
            for one in seen.parts
            if one.has_failed and not one.is_unseen and one.name not in refused
        ]
        first = [one for one in seen.parts if one.name in learners]
        seconds = time.monotonic() - started
        may_live = any(one.is_alive or one.is_unseen for one in first)
        if (problems and not options.allow_partial) or not may_live:
            return problems, seen
        if _listening(record, cluster) >= len(learners):
            return problems, seen
        waits = [one.state for one in first if one.state.startswith("waiting")]
        if waits and seconds > WAITS_S:
            print(f"The learners wait: {waits[0]}.")
            return problems, seen
        if seconds >= options.start_timeout_s:
            late = f"--start_timeout_s={options.start_timeout_s:g}"
            return [*problems, f"  {learners[0]}: does not listen within {late}."], seen
        time.sleep(LOOK_EVERY_S)


def _listening(record: Record, cluster: Cluster) -> int:
    """How many learners' pods are ready; of a team, whether the one that starts it is."""
    label = f"{RUN_LABEL}={record.run_id},app.kubernetes.io/component=learner"
    try:
        pods = cluster.list("Pod", label)
    except KubernetesFailed:
        return 0
    ready = [one for one in pods if looking.is_ready(one)]
    is_launcher = [one["metadata"]["labels"].get(looking.ROLE, "launcher") for one in ready]
    return is_launcher.count("launcher")
