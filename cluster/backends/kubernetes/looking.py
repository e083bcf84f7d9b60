"""The state of a run on Kubernetes: what its jobs and pods say, and what the pods have printed."""

import contextlib
import dataclasses
import datetime
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cluster.actions.seen import UNSEEN, Seen, SeenPart
from cluster.backends.backend import Tails
from cluster.backends.kubernetes.api import Cluster, KubernetesFailed
from cluster.backends.kubernetes.model import RUN_LABEL, Manifest
from cluster.model import Host, Place
from cluster.on_host import states
from cluster.record import Part, Record

INDEX = "batch.kubernetes.io/job-completion-index"
ROLE = "training.kubeflow.org/job-role"
OWNERS = ("batch.kubernetes.io/job-name", "training.kubeflow.org/job-name")
LAST_LINES = 20
AT_ONCE = 16
# Clocks differ; what a log's line was read already is known by its own time.
OVERLAP_S = 60
# A report as a learner prints it, by the names that figures have in its folder.
REPORT = re.compile(
    r"(?<!\S)frames +(?P<environment_frames>\S+)  of all .*?"
    r"  frames/s +(?P<frames_per_second>\S+)  .*?"
    r"  mean raw return +(?P<mean_episode_return>\S+)  .*?"
    r"  policy lag +(?P<policy_lag>\S+)  "
)
# A line has about so many bytes: the API counts lines from the end, the frontend bytes.
LINE_BYTES = 64

# A process, its job, and its pods, oldest first.
_There = tuple[Part, Manifest | None, list[Manifest]]


def look(record: Record, cluster: Cluster, with_logs: bool = True) -> Seen:
    """Asks the cluster for the run's jobs and pods, and for the last lines of each pod."""
    try:
        there = _there(record, cluster)
    except KubernetesFailed as error:
        return Seen([SeenPart(part, f"{UNSEEN}{error}") for part in record.parts], {}, {}, {})

    def seen(one: _There) -> SeenPart:
        return _seen(*one, record, cluster, with_logs)

    found = _at_once(seen, there)
    return Seen(found, {}, {record.parts[0].name: _figures(found)}, {})


def parts(record: Record, cluster: Cluster) -> Sequence[Part]:
    """The processes of the run; ``kubectl`` may have changed how many actors there are."""
    try:
        return [part for part, _, _ in _there(record, cluster)]
    except KubernetesFailed:
        return record.parts


def _there(record: Record, cluster: Cluster) -> list[_There]:
    jobs = _jobs(record, cluster)
    pods = _newest(cluster.list("Pod", f"{RUN_LABEL}={record.run_id}"))
    known = {part.name: part for part in record.parts}
    found = []
    for key, names in record.jobs:
        job = jobs.get(key)
        for index, name in enumerate(_scaled(names, job)):
            part = known.get(name) or dataclasses.replace(known[names[0]], name=name)
            found.append((part, job, pods.get((key.partition("/")[2], index), [])))
    return found


def tail(record: Record, offsets: Mapping[str, int], cluster: Cluster) -> Tails:
    """What the logs hold beyond the offsets, which are times in nanoseconds."""
    try:
        there = [one for one in _there(record, cluster) if one[0].name in offsets]
    except KubernetesFailed as error:
        return Tails({}, set(), {"kubernetes": str(error)})
    silent = {}

    def text(one: _There) -> tuple[str, tuple[str, int]]:
        name, pods = one[0].name, one[2]
        last = pods[-1]["metadata"]["name"] if pods else ""
        try:
            return name, _read(last, offsets[name], cluster) if last else ("", offsets[name])
        except KubernetesFailed as error:  # its node may be away, while others answer
            silent[name] = str(error)
            return name, ("", offsets[name])

    seen = [_seen(*one, record, cluster, with_logs=False) for one in there]
    alive = {one.name for one in seen if one.is_alive}
    return Tails(dict(_at_once(text, there)), alive, silent)


def _read(pod: str, offset: int, cluster: Cluster) -> tuple[str, int]:
    """The lines after a time, or at the end of a log, and the time of the last one."""
    if offset < 0:
        printed = cluster.log(pod, tailLines=max(1, -offset // LINE_BYTES))
    else:
        since = int(time.time() - offset / 1e9) + OVERLAP_S
        printed = cluster.log(pod, sinceSeconds=max(1, since))
    lines = []
    for line in _lines(printed):
        stamp, _, said = line.partition(" ")
        when = _nanoseconds(stamp)
        if when > max(offset, 0):
            lines.append(f"{said}\n")
            last = when
    return "".join(lines), last if lines else offset


def _lines(printed: str) -> list[str]:
    """The lines that have a time; splitlines would also end one at letters within it."""
    return printed.removesuffix("\n").split("\n") if printed else []


def _figures(seen: Sequence[SeenPart]) -> dict[str, float]:
    """The figures of the newest report in a learner's log: its folder is out of reach."""
    lines = [line for one in seen if one.part.job == "learner" for line in one.last_lines]
    reports = [found for line in lines if (found := REPORT.search(line))]
    figures = {}
    for name, text in reports[-1].groupdict().items() if reports else ():
        with contextlib.suppress(ValueError):  # not known yet
            figures[name] = float(text.replace(",", ""))
    return figures


def _at_once(ask: Callable[[Any], Any], those: Sequence[Any]) -> list[Any]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(ask, those))


def _jobs(record: Record, cluster: Cluster) -> dict[str, Manifest]:
    kinds = dict.fromkeys(key.partition("/")[0] for key, _ in record.jobs)
    return {
        f"{kind}/{one['metadata']['name']}": one
        for kind in kinds
        for one in jobs_of_kind(kind, f"{RUN_LABEL}={record.run_id}", cluster)
    }


def jobs_of_kind(kind: str, label: str, cluster: Cluster) -> list[Manifest]:
    """The jobs with this label; none of a kind that the cluster does not know."""
    try:
        return cluster.list(kind, label)
    except KubernetesFailed as error:
        if error.status == 404:  # for a kind that it knows, the API answers with an empty list
            return []
        raise


def _newest(pods: Sequence[Manifest]) -> dict[tuple[str, int], list[Manifest]]:
    """The pods of each index of a job, oldest first; of a team, those of its launcher."""
    found: dict[tuple[str, int], list[Manifest]] = {}
    for pod in sorted(pods, key=lambda one: one["metadata"].get("creationTimestamp", "")):
        labels = pod["metadata"]["labels"]
        if labels.get(ROLE, "launcher") == "launcher":
            owner = labels.get(OWNERS[1]) or labels.get(OWNERS[0], "")
            found.setdefault((owner, int(labels.get(INDEX) or 0)), []).append(pod)
    return found


def _scaled(names: Sequence[str], job: Manifest | None) -> list[str]:
    """The processes of a job, of which there may be more or fewer now than at the start."""
    now = job["spec"].get("completions") if job else None
    if now is None or now == len(names):
        return list(names)
    first = int(names[0].rpartition("-")[2])
    return [f"{names[0].rpartition('-')[0]}-{first + index}" for index in range(now)]


def _seen(
    part: Part,
    job: Manifest | None,
    pods: Sequence[Manifest],
    record: Record,
    cluster: Cluster,
    with_logs: bool,
) -> SeenPart:
    last = pods[-1] if pods else None
    stopped = states.is_stopped(record.path.parent, record.run_id)
    state = judged(job, last, stopped)
    if last is None:
        return SeenPart(part, state)
    node = last["spec"].get("nodeName", part.host.ip)
    part = dataclasses.replace(part, place=Place(Host(node, 22), part.place.folder, ""))
    restarts = len(pods) - 1 + sum(one.get("restartCount", 0) for one in _containers(last))
    since = last["status"].get("startTime")
    lines, silent = _last_lines(last, cluster) if with_logs else ((), 0.0)
    began = _nanoseconds(since) / 1e9 if since else None
    return SeenPart(part, state, began, restarts, lines, silent)


def _last_lines(pod: Manifest, cluster: Cluster) -> tuple[tuple[str, ...], float]:
    """The last lines of a pod, and the seconds since the last one."""
    try:
        printed = _lines(cluster.log(pod["metadata"]["name"], tailLines=LAST_LINES))
    except KubernetesFailed:
        return (), 0.0
    silent = time.time() - _nanoseconds(printed[-1].partition(" ")[0]) / 1e9 if printed else 0.0
    return tuple(line.partition(" ")[2] for line in printed), silent


def judged(job: Manifest | None, pod: Manifest | None, stopped: bool) -> str:
    """The state of a process, in the words that the frontend uses everywhere."""
    if pod and pod["metadata"].get("deletionTimestamp"):
        return "stopping"
    phase = pod["status"].get("phase", "Pending") if pod else ""
    if pod and phase in ("Pending", "Running", "Unknown") and job:
        return _active(pod, phase)
    if stopped:
        return "stopped"
    if not job:
        return "lost: the cluster has no job of it any more"
    if phase == "Succeeded":
        return "done"
    conditions = job.get("status", {}).get("conditions", ())
    ended = {one["type"] for one in conditions if one["status"] == "True"}
    has_failed = bool(ended & {"Failed", "FailureTarget"})
    if phase == "Failed" and pod and (has_failed or _is_given_up(job, pod)):
        return f"failed: {_why(pod)}"
    if ended & {"Complete", "Succeeded"}:
        return "done"
    if has_failed:
        return "failed"
    if phase == "Failed" and pod:
        return f"waiting, starts again after {_why(pod)}"
    return "waiting, no pod yet"


def _active(pod: Manifest, phase: str) -> str:
    for one in _containers(pod):
        reason = one.get("state", {}).get("waiting", {}).get("reason", "")
        if reason and reason != "ContainerCreating":
            return f"waiting, {reason}"
    conditions = {one["type"]: one for one in pod["status"].get("conditions", ())}
    placed = conditions.get("PodScheduled", {})
    if placed.get("status") == "False":
        return f"waiting, {placed.get('reason', 'Unschedulable')}: {placed.get('message', '')}"
    if phase == "Unknown":
        return "running, its node does not answer"
    return "running" if phase == "Running" else "starting"


def is_ready(pod: Manifest) -> bool:
    """Whether a pod's own health check says so."""
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in pod["status"].get("conditions", ())
    )


def _is_given_up(job: Manifest, pod: Manifest) -> bool:
    """Whether a Job starts this index no more: ranges such as 1,3-5."""
    index = int(pod["metadata"]["labels"].get(INDEX) or 0)
    for words in filter(None, job.get("status", {}).get("failedIndexes", "").split(",")):
        first, _, last = words.partition("-")
        if int(first) <= index <= int(last or first):
            return True
    return False


def _why(pod: Manifest) -> str:
    reason = pod["status"].get("reason", "")
    codes = [
        one["state"]["terminated"].get("exitCode")
        for one in _containers(pod)
        if "terminated" in one.get("state", {})
    ]
    return reason or (f"{codes[0]}" if codes else "an unknown reason")


def _containers(pod: Manifest) -> list[Manifest]:
    return pod["status"].get("containerStatuses") or []


def _nanoseconds(stamp: str) -> int:
    """A time as the API writes it, such as 2026-01-31T12:00:00.123456789Z."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    try:
        then = datetime.datetime.fromisoformat(f"{whole}+00:00")
        return int(then.timestamp()) * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)
    except ValueError:
        return 0
