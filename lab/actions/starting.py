"""Starts an experiment, or goes on with it: check, dev, train, search, benchmark."""

import contextlib
import dataclasses
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.actions import locking
from lab.actions.benchmarks import benchmark
from lab.running.nodes import Nodes
from lab.running.progress import Progress
from lab.running.runner import Runner
from lab.running.slots import Here, Places
from lab.specs import frozen
from lab.specs import spec as specs
from lab.specs.errors import refuse
from lab.specs.meta import Resources
from lab.specs.spec import Spec
from lab.trials import plan
from lab.trials.folder import Experiment, newest
from trainer.machine.launching import module_command, script_name, with_project
from trainer.reporting.wording import number
from trainer.settings.config import Settings
from trainer.storage.folder import make_writable
from user_error import UserError

# What a development run shortens.
DEV_FRAMES = 5_000
DEV_WARM_UP = 500  # agent steps, also where each is several frames
LOG = "lab.log"
BEGINS_WITHIN_S = 30.0
ENDS_WITHIN_S = 1.0  # where it is refused
PASSED_ON = ("data", "cores", "engine", "ray_address")  # to a process in the background


def check(argument: str) -> int:
    """Reads a spec, or all specs of a file, and prints what they would run."""
    path, name = specs.split(argument)
    for spec in specs.read_all(path, name):
        for note in spec.notes:
            print(note)
        levels = ", ".join(spec.levels)
        searched = ", ".join(one.key for one in spec.searched) or "nothing"
        print(f"{spec.name}: {levels}, {spec.settings.get('algorithm', 'impala')}; "
              f"{spec.meta.sessions} session(s) a trial; searched: {searched}.")  # fmt: skip
    return 0


def start(mode: str, argument: str, options: Any, levels: str = "") -> int:
    """Runs a spec in a mode, in a new folder or in that of an earlier start that has not ended."""
    if Path(argument).is_dir():
        check_goes_on(argument, options.new, levels)
        experiment = of_folder(mode, Path(argument))
        if experiment.result():
            print(f"{experiment.folder} is finished; with {argument}/spec.json it runs again.")
            return 0
    else:
        experiment = _of_spec(mode, argument, options, levels)
    places = places_of(experiment.spec.meta.resources, options, experiment.held_memory())
    if not options.detach:
        return run(experiment, places)
    locking.check_free(experiment.folder)

    def has_begun(process: int) -> bool:
        return locking.written_by(experiment.folder).process == process

    command = [mode, str(experiment.folder)]
    process = detach(command, experiment.folder / LOG, options, has_begun)
    print(f"{experiment.folder} runs in process {process}; its output is in lab.log there.")
    lab = script_name("bin/lab")
    print(f"{lab} status {experiment.folder} · {lab} stop {experiment.folder}")
    return 0


def places_of(resources: Resources, options: Any, held: int = 0) -> Places:
    """Where sessions run: on this machine, or on the nodes of a Ray cluster.

    ``held`` are the bytes of memory that running sessions have which are taken over.
    """
    if options.cores < 0:
        raise UserError(f"--cores={options.cores}: expected 0, which are all, or more.")
    if 0 < options.cores < resources.cores:
        raise UserError(
            f"--cores={options.cores}: expected at least {resources.cores}, the cores of a session "
            "by meta.resources.cores; without --cores all are used."
        )
    if options.engine == "ray":
        return Nodes(options.ray_address, resources, options.cores)
    if options.ray_address:
        raise UserError(f"--ray_address={options.ray_address}: expected --engine=ray beside it.")
    return Here(resources, options.cores, held)


def check_goes_on(folder: str, new: bool, levels: str) -> None:
    """Refuses what an experiment that is to go on would ignore."""
    given = "--new" if new else f"--levels={levels}" if levels else ""
    if given:
        raise UserError(
            f"{given}: {folder} is an experiment that goes on as it was started. Name the spec's "
            f"file for another one; {folder}/spec.json repeats this one."
        )


def of_folder(mode: str, folder: Path) -> Experiment:
    """The experiment of a folder, to go on with."""
    experiment = Experiment(folder)
    if experiment.mode != mode:
        raise UserError(
            f"{folder}: found an experiment of {script_name('bin/lab')} {experiment.mode}; "
            f"expected {mode}."
        )
    return experiment


def _of_spec(mode: str, argument: str, options: Any, levels: str) -> Experiment:
    """The newest unfinished experiment of a spec, or a new one."""
    spec, extra = prepare(mode, argument, levels)
    experiment = None if options.new else newest(options.data, spec, mode, extra)
    if experiment is not None and not experiment.result():
        print(f"Going on with {experiment.folder}; --new would start afresh.")
        return experiment
    places_of(spec.meta.resources, options)  # refuses before a folder is made
    for note in spec.notes:
        print(note)
    changed = frozen.changes(spec)
    if changed:
        print(f"This spec was frozen with other versions; figures may differ: {changed}.")
    make_data_writable(options.data)
    return Experiment.create(spec, mode, options.data, extra)


def make_data_writable(data: Path) -> None:
    try:
        make_writable(data)
    except UserError as error:
        raise UserError(str(error).replace("--logdir", "--data")) from None


def prepare(mode: str, argument: str, levels: str) -> tuple[Spec, dict[str, Any]]:
    """The spec that a mode runs, and what else belongs to the experiment."""
    path, name = specs.split(argument)
    if mode == "benchmark":
        return benchmark(path, name, levels)
    spec = specs.read(path, name)
    where = f"{path}: {spec.name}"
    if mode == "search" and not spec.searched:
        refuse(f"{where}.search", None, "keys to search, such as learning_rate__loguniform")
    if mode == "dev":
        spec = _short(spec)
    if spec.by_level:
        note = f"{spec.name}.by_level is for benchmarks; {mode} leaves it out."
        spec = dataclasses.replace(spec, notes=(*spec.notes, note))
    return spec, {}


def _short(spec: Spec) -> Spec:
    """The same spec, so short that it only shows whether everything works."""
    content = spec.content()
    frames = min(spec.total_frames or DEV_FRAMES, DEV_FRAMES)
    content["settings"] |= {"total_environment_frames": frames, "report_every_s": 0.2}
    settings = Settings(**spec.settings).flat()
    if settings.get("replay_warm_up", 0) > DEV_WARM_UP:
        content["settings"]["replay_warm_up"] = DEV_WARM_UP
    content["meta"] |= {"sessions": min(spec.meta.sessions, 2)}
    return dataclasses.replace(specs.parse(spec.name + specs.DEV, content, "dev"), notes=spec.notes)


def run(experiment: Experiment, places: Places) -> int:
    """Runs an experiment to its end, or until a signal comes."""
    lock = locking.lock(experiment.folder)
    show = Progress(f"{experiment.spec.name} · {experiment.mode}")
    trials = plan.expected(experiment, experiment.trials())
    count = f"{trials} trial(s), {places.count()} session(s) side by side"
    show.say(f"{experiment.folder}: {count}.")
    runner = Runner(experiment, places, show)
    reason: list[int] = []

    def stop(number: int, _: Any) -> None:
        if reason and number == signal.SIGINT:
            raise KeyboardInterrupt
        reason.append(number)
        runner.stop(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        finished = runner.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        show.close()
        lock.release()
    if finished:
        show.say(closing(experiment))
        return 1 if experiment.result()["failed"] else 0
    show.say(f"Stopped. The same command, without --new, goes on with {experiment.folder}.")
    return 128 + reason[0]


def closing(experiment: Experiment) -> str:
    """The last lines of an experiment: what came out, and where to look."""
    result, folder = experiment.result(), experiment.folder
    lab = script_name("bin/lab")
    lines = []
    if result["winner"] is not None:
        what = "Winner, with new seeds" if result["confirmed"] else "Best trial"
        objective = number(result["winner_objective"])
        own = result["default_objective"]
        beside = "" if own is None else f" (the spec's own settings: {number(own)})"
        lines.append(f"{what}: t{result['winner']}, {objective}{beside}.")
    if result["failed"]:
        names = ", ".join(f"t{number}" for number in result["failed"])
        lines.append(f"Failed: {names}. {lab} retry {folder} runs them again.")
    if experiment.mode == "benchmark":
        lines.append(f"Scores: {experiment.file('benchmark.md')}")
    lines.append(f"Look at {folder}/index.html, play with: {lab} enjoy {folder}")
    return "\n".join(lines)


def detach(command: list[str], log: Path, options: Any, has_begun: Callable[[int], bool]) -> int:
    """Runs a command in a process of its own that outlives this terminal; returns its number.

    It waits until the process, by its number, has begun: one that ends before was refused.
    """
    given = [f"--{name}={getattr(options, name)}" for name in PASSED_ON]
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [*module_command("lab"), *command, *given],
            env=with_project(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    until = time.monotonic() + BEGINS_WITHIN_S
    while process.poll() is None and not has_begun(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    with contextlib.suppress(subprocess.TimeoutExpired):  # it may have begun to say why not
        process.wait(ENDS_WITHIN_S)
    if process.poll() not in (None, 0):
        raise UserError(f"{' '.join(command)} ended at once; see {log}.")
    return process.pid
