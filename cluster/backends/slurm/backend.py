"""The backend for nodes of Slurm; the frontend runs where sbatch does."""

import functools
from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

from cluster import agents, show
from cluster import record as records
from cluster.actions.seen import Seen
from cluster.backends.backend import Tails
from cluster.backends.patience import patiently
from cluster.backends.slurm import allocation, looking, queue, starting, stopping
from cluster.backends.slurm.model import RUN_ID, SlurmPlan
from cluster.backends.slurm.plan import make_plan
from cluster.backends.slurm.queue import SlurmAway, SlurmFailed, SlurmMissing
from cluster.backends.ssh import progress
from cluster.backends.ssh.backend import hosts_of_before
from cluster.model import LOCAL, Place
from cluster.options import Options
from cluster.record import Part, Record
from cluster.this_machine import here
from trainer.settings.config import Settings
from user_error import UserError


class SlurmBackend:
    """See ``Backend``."""

    def __init__(self, options: Options, settings: Settings):
        self._options = options
        self._settings = settings
        self._plan: SlurmPlan

    def prepare(self) -> None:
        options = self._options
        rows = agents.rows_of(options)
        self._plan = make_plan(rows, self._settings, options, here())

    def show(self) -> None:
        links = dict(self._plan.links)
        table = Table("process", "node", "linked to", box=box.SIMPLE)
        for one in self._plan.processes:
            for name in one.parts or (one.name,):
                table.add_row(name, one.node, links.get(name, ""))
        show.console().print(table)
        for job in self._plan.jobs:
            program = "bash" if allocation.own() else "sbatch"
            script = job.script.replace(RUN_ID, "by-hand")
            print(f"# {job.name}\n{program} <<'END'\n{script}END\n")

    def sync(self) -> int:
        print("The nodes share this folder: there is nothing to copy.")
        return 0

    def check(self, before: Record | None = None) -> bool:
        table = Table("job", "problem", "how to fix it", box=box.SIMPLE)
        for job in self._plan.jobs if not allocation.own() else ():
            ask = functools.partial(queue.run, "sbatch", "--test-only", text=job.script)
            try:
                patiently(ask, SlurmAway, 0.0 if table.rows else self._options.patience)
            except SlurmFailed as error:
                remedy = "fix --learner_resources, --actor_resources or column ip"
                if isinstance(error, (SlurmAway, SlurmMissing)):
                    remedy = "give this command where sbatch works, or again later"
                table.add_row(job.name, str(error), remedy)
        if table.rows:
            show.console().print(table)
        logdir = self._plan.logdir
        known = before or records.read(logdir)
        if known and known.backend != "slurm":
            now = Place(LOCAL, here().folder, "")  # which the nodes share
            with hosts_of_before(self._options) as hosts:
                progress.must_be_found(known, now, logdir, "", hosts, self._options.allow_partial)
        return not table.rows

    def start(self) -> int:
        return starting.start(self._plan, self._options, self._settings, here())

    def look(self, record: Record) -> Seen:
        return looking.look(record)

    def parts(self, record: Record) -> Sequence[Part]:
        return record.parts

    def tail(self, record: Record, offsets: Mapping[str, int]) -> Tails:
        return looking.tail(record, offsets)

    def fetch(self, record: Record, folder: str) -> int:
        print(f"The nodes share this folder: all results are in {folder}.")
        return 0

    def add(self, record: Record) -> int:
        raise UserError(_fixed("add"))

    def remove(self, record: Record) -> int:
        raise UserError(_fixed("remove"))

    def stop(self, record: Record) -> int:
        return stopping.stop(record, self._options)

    def close(self) -> None:
        pass  # each command of Slurm is a process of its own


def _fixed(action: str) -> str:
    return (
        f"--action={action} is for hosts of your own: Slurm gets a run's actors as a whole. Use "
        "--backend=slurm --action=restart with other --actors; the run resumes from its last "
        "checkpoint."
    )
