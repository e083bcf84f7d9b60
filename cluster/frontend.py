"""From a command line to an action on the cluster."""

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from cluster import options
from cluster.backends import chosen as backends
from cluster.options import Options
from trainer.settings.config import Settings

if TYPE_CHECKING:
    from cluster.backends.backend import Backend


def run(arguments: Sequence[str]) -> int:
    """Does what the flags ask for; returns the exit code."""
    chosen, settings = options.parse(arguments)
    if chosen.action in ("status", "logs", "stop", "fetch"):
        return _with_run(chosen, settings)
    if chosen.action in ("add", "remove"):
        return _change(arguments, settings.run_folder)
    with closing(backends.make(chosen.backend, chosen, settings)) as backend:
        _check_levels(settings)
        backend.prepare()
        return _with_plan(chosen, settings, backend)


def _with_plan(chosen: Options, settings: Settings, backend: "Backend") -> int:
    """Does what takes a plan."""
    if chosen.dry_run:
        backend.show()
        return 0
    if chosen.action == "sync":
        return backend.sync()
    if chosen.action == "check":
        if not backend.check():
            return 1
        print("No problems found.")
        return 0
    # Imported late, so that --help answers at once.
    from cluster import record

    if chosen.action == "restart":
        record.must_read(settings.run_folder)
    with record.one_start(settings.run_folder):
        return _start(chosen, settings, backend)


def _check_levels(settings: Settings) -> None:
    """A ``UserError`` if there is no such level, as far as this machine can tell."""
    try:
        from environments import names
    except ImportError:  # a machine that only reaches others needs no environments
        return
    for level in settings.level.levels:
        names.find(level)


def _start(chosen: Options, settings: Settings, backend: "Backend") -> int:
    """Checks, then starts; a restart stops the run in between, so that a mistake costs no run."""
    from cluster import record
    from cluster.actions import running

    before = None
    if chosen.action == "start":
        running.refuse_second_run(settings.run_folder, chosen, settings, backend)
    else:
        before = record.must_read(settings.run_folder)
        record.refuse_elsewhere(before)  # a stop would end only the rest of it
    if not backend.check(before) and not chosen.allow_partial:
        nothing = "Nothing was stopped or started." if before else "Nothing was started."
        print(f"{nothing} Fix this, or give --allow_partial.")
        return 1
    if before:
        with backends.of_run(before, chosen, settings, backend) as its:
            left = its.stop(before)
        if left and not chosen.allow_partial:
            return 1
    return backend.start()


def _change(arguments: Sequence[str], folder: str) -> int:
    """Adds actors to a run, with its own flags unless others are given, or removes some."""
    from cluster import record

    record.must_read(folder)  # else the lock would make a folder whose name is mistyped
    with record.one_start(folder):
        run = record.must_read(folder)
        chosen, settings = options.parse([*run.flags, *arguments])
        # As its hosts know it, whatever way to the folder is given here.
        settings = settings.replace(logdir=run.logdir)
        with closing(backends.make(run.backend, chosen, settings)) as backend:
            return backend.add(run) if chosen.action == "add" else backend.remove(run)


def _with_run(chosen: Options, settings: Settings) -> int:
    """Runs an action on a run that was started earlier, by the backend that started it."""
    from cluster import record
    from cluster.actions import logs, watching

    run = record.must_read(settings.run_folder)
    with closing(backends.make(run.backend, chosen, settings)) as backend:
        if chosen.action == "status":
            return watching.status(run, backend, chosen.follow, chosen.json)
        if chosen.action == "logs":
            return logs.logs(run, backend, chosen.name, chosen.follow)
        if chosen.action == "fetch":
            return backend.fetch(run, settings.run_folder)
        return backend.stop(run)
