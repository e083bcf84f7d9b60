"""A case on the hosts of a CSV, started and stopped as the frontend does it."""

import contextlib
import dataclasses
import io
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from benchmarks.tools import common
from benchmarks.whole.scaleup.cases import Case, Reports, training_flags
from benchmarks.whole.scaleup.options import Chosen
from benchmarks.whole.scaleup.processes import Failed
from cluster import record
from cluster.backends.ssh import looking, starting, stopping
from cluster.backends.ssh.backend import connections, here_with, routes_of
from cluster.backends.ssh.hosts import Hosts
from cluster.inventory.hosts_csv import Row
from cluster.model import Host, Plan, Process
from cluster.plan import make_plan
from cluster.record import Record
from trainer.machine.launching import PROJECT, script_command
from user_error import UserError

LOOK_EVERY_S = 0.5


class OnHosts:
    """A case's processes; see ``cases.Running``."""

    def __init__(self, case: Case, chosen: Chosen, rows: Sequence[Row], logdir: str):
        settings = chosen.settings.replace(**training_flags(chosen, case.actors))
        self._options = dataclasses.replace(chosen.hosts, tmux_sess="", tensorboard=False)
        routes = routes_of(self._options)
        self._connections = connections(self._options, list(rows), routes)
        self._hosts = Hosts(self._connections)
        self._plans = side_by_side(
            [
                make_plan(
                    picked(case, team, rows),
                    settings.replace(logdir=f"{logdir}-{number}"),
                    self._options,
                    here_with(self._options, routes),
                )
                for number, team in enumerate(case.teams)
            ]
        )
        self._records: list[Record] = []
        self._reports: list[Reports] = [[] for _ in self._plans]

    def __enter__(self) -> "OnHosts":
        with contextlib.ExitStack() as undone:
            undone.push(self.__exit__)
            for plan in self._plans:
                common.progress(f"starts on its hosts: {plan.logdir}")
                self._start(plan)
            undone.pop_all()
        return self

    def _start(self, plan: Plan) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            failed = starting.start(
                plan, self._options, self._hosts, self._connections.passwords, PROJECT, flags=()
            )
        if failed:
            raise Failed(f"{output.getvalue()}Should any of it be left: {self._stop(plan)}")
        self._records.append(record.must_read(plan.logdir))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        left = []
        for plan, one in zip(self._plans, self._records, strict=False):  # those that were started
            with contextlib.redirect_stdout(io.StringIO()) as output:
                failed = stopping.stop(one, self._options, self._hosts)
            if failed:
                left.append(f"{output.getvalue()}That is: {self._stop(plan)}")
        self._connections.close()
        if left and kind is None:
            raise Failed("\n".join(left))
        for told in left:
            print(told)

    def _stop(self, plan: Plan) -> str:
        """The command that ends what may be left of a plan."""
        flags = ["--action=stop", f"--logdir={plan.logdir}", *starting.again(plan, self._options)]
        return shlex.join([*script_command("run_experiment_mm_raw.py"), *flags])

    def reports(self) -> list[Reports]:
        """What each team's first learner has reported until now."""
        return self._reports

    def wait(self, until: Callable[[], object], seconds: float) -> None:
        """Waits until something holds; an error where a process ends or it takes too long."""
        end = time.monotonic() + seconds
        silences = [looking.Silence(self._options.patience) for _ in self._records]
        while not until():
            for one, reports, silence in zip(self._records, self._reports, silences, strict=True):
                seen = looking.look(one, self._hosts)
                away = silence.passing(seen)
                ended = [
                    f"{part.name}: {part.state}"
                    for part in seen.parts
                    if not part.is_alive and part.name not in away
                ]
                if ended or time.monotonic() > end:
                    raise Failed("\n".join(ended) or f"no report within {seconds:g} s")
                before = reports[-1]["environment_frames"] if reports else 0
                figures = seen.figures.get(one.listeners[0].name, {})
                if figures.get("environment_frames", 0) > before:
                    reports.append(figures)
            time.sleep(LOOK_EVERY_S)


def check_rows(cases: Sequence[Case], rows: Sequence[Row]) -> None:
    """A ``UserError`` where a case needs more processes than there are."""
    for job, needed in (
        ("learner", max(case.learners for case in cases)),
        ("actor", max(case.learners * case.actors for case in cases)),
    ):
        there = sum(row.count for row in rows if row.job == job)
        if there < needed:
            raise UserError(
                f"--workers_csv_path has {there} {job}s; --learners and --actors need {needed}."
            )
    learners = _single(rows, "learner")[: max(case.learners for case in cases)]
    on_host = Counter(map(_host, learners))
    for row in learners:
        if on_host[_host(row)] > 1 and row.cuda_visible_devices in ("", "-1"):
            raise UserError(
                f"--workers_csv_path: line {row.line} has one of {on_host[_host(row)]} learners on "
                f"{row.ip}, without column cuda_visible_devices. Give it its GPUs there, so that "
                "it has the same one alone as in a team; or, if there are none, a host of its own."
            )


def picked(case: Case, team: Sequence[int], rows: Sequence[Row]) -> list[Row]:
    """The rows of a team's learners, and those of as many actors as they need."""
    learners, actors = _with_own_gpu(_single(rows, "learner")), _single(rows, "actor")
    # Actors are dealt out in turn, so that each learner has the same ones in every case.
    own = [
        actor
        for index, actor in enumerate(actors[: case.learners * case.actors])
        if index % case.learners in team
    ]
    return [learners[number] for number in team] + own


def _single(rows: Sequence[Row], job: str) -> list[Row]:
    """A row for each process of this kind."""
    return [
        dataclasses.replace(row, tf_port=port, count=1)
        for row in rows
        if row.job == job
        for port in row.ports
    ]


def _host(row: Row) -> tuple[str, int | None]:
    return row.ip, row.ssh_port


def _with_own_gpu(learners: Sequence[Row]) -> list[Row]:
    """The learners, each with that of its GPUs which it would take in a team of all of them."""
    there: Counter[tuple[str, int | None]] = Counter()
    found = []
    for row in learners:
        gpus = row.cuda_visible_devices.split(",")
        own = gpus[there[_host(row)] % len(gpus)]
        found.append(dataclasses.replace(row, cuda_visible_devices=own))
        there[_host(row)] += 1
    return found


def side_by_side(plans: Sequence[Plan]) -> list[Plan]:
    """The plans, whose actors share the cores of a host with those of all other plans."""
    on_host = Counter(actor.host for plan in plans for actor in plan.actors)
    return [
        dataclasses.replace(
            plan, processes=tuple(_beside_others(one, on_host) for one in plan.processes)
        )
        for plan in plans
    ]


def _beside_others(process: Process, on_host: Mapping[Host, int]) -> Process:
    if process.job != "actor":
        return process
    kept = [word for word in process.argv if not word.startswith("--actors_on_host=")]
    argv = (*kept, f"--actors_on_host={on_host[process.host]}")
    return dataclasses.replace(process, argv=argv)
