"""The backend for a cluster of Kubernetes, reached as kubectl reaches it."""

import functools
from collections.abc import Mapping, Sequence

import yaml
from rich import box
from rich.table import Table

from cluster import agents, show
from cluster import record as records
from cluster.actions.seen import Seen
from cluster.backends.backend import Tails
from cluster.backends.kubernetes import folder, looking, starting, stopping
from cluster.backends.kubernetes.api import Cluster, KubernetesAway, KubernetesFailed
from cluster.backends.kubernetes.model import RUN_LABEL, KubernetesPlan, Manifest
from cluster.backends.kubernetes.plan import folder_of, make_plan, name_of_run
from cluster.backends.patience import patiently
from cluster.backends.ssh import progress
from cluster.options import DEFAULTS, Options
from cluster.record import Part, Record
from trainer.settings.config import Settings
from user_error import UserError

# In the place of a run's id, where somebody else applies the manifests.
BY_HAND = "by-hand"


class KubernetesBackend:
    """See ``Backend``."""

    def __init__(self, options: Options, settings: Settings):
        self._options = options
        self._settings = settings
        self._plan: KubernetesPlan
        self._known: Record | None = None

    @functools.cached_property
    def _cluster(self) -> Cluster:
        return Cluster(self._options.namespace, self._options.kube_context)

    def prepare(self) -> None:
        options = self._options
        rows = agents.rows_of(options)
        self._known = records.read(self._settings.run_folder)
        self._plan = make_plan(rows, self._settings, options, self._known)

    def show(self) -> None:
        print(yaml.safe_dump_all(folder.of_run(self._plan, BY_HAND), sort_keys=False), end="")
        for secret, name in self._plan.secrets:
            print(f"---\n# and a Secret {secret} of LOGDIR/credentials/{name}, which is not shown")

    def sync(self) -> int:
        starting.make_credentials(self._plan)
        made = folder.write(self._plan, BY_HAND, self._options.namespace)
        print(f"Written, and nothing started. Apply it with\n  kubectl apply -k {made}")
        return 0

    def check(self, before: Record | None = None) -> bool:
        table = Table("object", "problem", "how to fix it", box=box.SIMPLE)
        for one in folder.of_run(self._plan, BY_HAND):
            ask = functools.partial(self._problem, one, before)
            try:
                seconds = 0.0 if table.rows else self._options.patience
                problem = patiently(ask, KubernetesAway, seconds)
            except KubernetesAway as error:
                problem = str(error), "fix --kube_context or the cluster, or try again later"
            if problem:
                name = f"{one['kind']} {one['metadata']['name']}"
                table.add_row(name, *problem)
        if table.rows:
            show.console().print(table)
        progress.warn_of_pods(self._known, self._plan.logdir)
        return not table.rows

    def _problem(self, one: Manifest, before: Record | None) -> tuple[str, str] | None:
        """Why an object cannot be created, and what to do; None if it can."""
        name = one["metadata"]["name"]
        try:
            found = self._cluster.find(one["kind"], name)
            if found is None:
                self._cluster.create(one, only_check=True)
            elif one["kind"] == "PersistentVolumeClaim":
                return self._problem_of_volume(found)
            else:
                run = found["metadata"].get("labels", {}).get(RUN_LABEL, "")
                if not before or run != before.run_id:
                    what = f"of a run {run}" if run else "of somebody else"
                    return f"it is there already, {what}", "stop that, or give another --logdir"
        except KubernetesAway:
            raise
        except KubernetesFailed as error:
            return str(error), "fix --namespace, --kube_context, resources or the cluster"
        return None

    def _problem_of_volume(self, found: Manifest) -> tuple[str, str] | None:
        """Why a volume that is there already is not the one that was asked for."""
        from kubernetes.utils import parse_quantity

        options, known, spec = self._options, self._known, found["spec"]
        namespace, name = self._cluster.namespace, found["metadata"]["name"]
        if not known or (known.backend, known.namespace) != ("kubernetes", namespace):
            return (
                f"it is there already, of a run that {self._plan.logdir} has no record of",
                "give another --logdir, or delete it with all that is in it: "
                f"kubectl -n {namespace} delete pvc {name}",
            )
        size, asked = spec["resources"]["requests"]["storage"], options.storage
        if asked != DEFAULTS["storage"] and parse_quantity(asked) != parse_quantity(size):
            return (
                f"it is there already, of {size}, not of --storage={asked}",
                f"give --storage={size}, or change it: kubectl -n {namespace} edit pvc {name}",
            )
        kind = spec.get("storageClassName", "")
        if options.storage_class not in ("", kind):
            return (
                f"it is there already, of class {kind or 'none'}, not of "
                f"--storage_class={options.storage_class}",
                "leave --storage_class out, or give another --logdir",
            )
        return None

    def start(self) -> int:
        return starting.start(self._plan, self._options, self._cluster)

    def look(self, record: Record) -> Seen:
        return looking.look(record, self._of(record))

    def parts(self, record: Record) -> Sequence[Part]:
        return looking.parts(record, self._of(record))

    def tail(self, record: Record, offsets: Mapping[str, int]) -> Tails:
        return looking.tail(record, offsets, self._of(record))

    def fetch(self, record: Record, folder: str) -> int:
        learner = f"{RUN_LABEL}={record.run_id},app.kubernetes.io/component=learner"
        raise UserError(
            "--action=fetch cannot read a cluster's volume. While the first learner runs: "
            f"kubectl -n {record.namespace} cp POD:{folder_of(name_of_run(record))} {folder}, "
            "with the name of its pod from "
            f"kubectl -n {record.namespace} get pods -l {learner}."
        )

    def add(self, record: Record) -> int:
        raise UserError(_fixed("add"))

    def remove(self, record: Record) -> int:
        raise UserError(_fixed("remove"))

    def stop(self, record: Record) -> int:
        return stopping.stop(record, self._of(record))

    def close(self) -> None:
        pass  # the client keeps no connection that anyone waits for

    def _of(self, record: Record) -> Cluster:
        """The cluster and namespace in which a run was started."""
        # Earlier versions wrote only a context that was given.
        return _cluster_of(record.namespace, record.context or self._options.kube_context)


def _fixed(action: str) -> str:
    return (
        f"--action={action} is for hosts of your own: Kubernetes gets a run's actors as a "
        "whole. Use --backend=kubernetes --action=restart with other --actors; the run resumes "
        "from its last checkpoint."
    )


@functools.cache
def _cluster_of(namespace: str, context: str) -> Cluster:
    return Cluster(namespace, context)
