"""Stops a run on Kubernetes: deletes all that has its label; the volume stays."""

import contextlib
import time
from collections import Counter

from cluster.actions.next_steps import print_left
from cluster.backends.kubernetes import looking
from cluster.backends.kubernetes.api import Cluster, KubernetesFailed
from cluster.backends.kubernetes.model import RUN_LABEL
from cluster.on_host import states
from cluster.on_host.states import write_whole
from cluster.record import Record, counted

LOOK_EVERY_S = 0.5
# From the last KILL of a node to the end of the pod's object.
ENDS_WITHIN_S = 30.0
OTHERS = ("Service", "NetworkPolicy", "Secret")


def stop(record: Record, cluster: Cluster, action: str = "stop") -> int:
    """Deletes the run's jobs, whose pods get TERM, then KILL after their grace period."""
    folder = record.path.parent
    label = f"{RUN_LABEL}={record.run_id}"
    try:
        seen = looking.look(record, cluster, with_logs=False)
        unseen = [one.why_unseen for one in seen.parts if one.is_unseen]
        if unseen:
            raise KubernetesFailed(unseen[0])
        alive = [one.part for one in seen.parts if one.is_alive]
        if folder.is_dir():
            with contextlib.suppress(OSError):  # a full disk; jobs are deleted anyway
                write_whole(folder / states.STOPPED, record.run_id)
        for key, _ in record.jobs:
            kind, _, name = key.partition("/")
            found = looking.jobs_of_kind(kind, label, cluster)
            if any(one["metadata"]["name"] == name for one in found):
                cluster.delete(kind, name)
        left = _wait(label, cluster)
        for kind in OTHERS:
            for one in cluster.list(kind, label):
                cluster.delete(kind, one["metadata"]["name"])
    except KubernetesFailed as error:
        print_left(["Not stopped:", f"  Kubernetes: {error}"], action)
        return 1
    jobs: Counter[str] = Counter()
    for part in alive:
        jobs[part.job] += len(part.parts) or 1
    if jobs:
        print(f"Stopped {counted(jobs)}.")
    elif not left:
        print("Nothing to stop: no process of the run is left.")
    if left:
        print_left(["Not stopped:", f"  pods {' '.join(left)}"], action)
    return int(bool(left))


def _wait(label: str, cluster: Cluster) -> list[str]:
    """Waits for the pods to end, each within its own grace period; returns those that are left."""
    end = 0.0
    begun = time.monotonic()
    while True:
        pods = [
            one
            for one in cluster.list("Pod", label)
            if one["status"].get("phase") not in ("Succeeded", "Failed")
        ]
        graces = [one["spec"].get("terminationGracePeriodSeconds", 30) for one in pods]
        end = max([end, *(begun + grace + ENDS_WITHIN_S for grace in graces)])
        if not pods or time.monotonic() > end:
            return [one["metadata"]["name"] for one in pods]
        time.sleep(LOOK_EVERY_S)
