"""Starts experiments, or goes on with them: check, dev, train, search, benchmark, run."""

import contextlib
import dataclasses
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from environments import names
from lab.actions import locking
from lab.results.standards import SETS
from lab.running.nodes import Nodes
from lab.running.progress import Progress
from lab.running.runner import Runner
from lab.running.slots import Here, Places
from lab.specs import frozen
from lab.specs import spec as specs
from lab.specs.errors import refuse, shown
from lab.specs.meta import Resources, Standard
from lab.specs.spec import Spec
from lab.trials import plan
from lab.trials.folder import Experiment, newest
from trainer.machine.launching import module_command, script_name, with_project
from trainer.settings import files
from trainer.settings.config import Settings
from trainer.storage.folder import make_writable
from user_error import UserError, closest

MODES = ("dev", "train", "search", "benchmark")
# What a development run shortens.
DEV_FRAMES = 5_000
DEV_WARM_UP = 500  # agent steps, also where each is several frames
LOG = "lab.log"
BEGINS_WITHIN_S = 30.0
ENDS_WITHIN_S = 1.0  # where it is refused
PASSED_ON = ("data", "cores", "engine", "ray_address")  # to a process in the background
# In meta, specs of one benchmark may differ by their seeds, and by what only a search looks at.
MAY_DIFFER = {
    *("sessions", "seed", "trials", "search", "population", "early_stopping"),
    *("finalists", "final_sessions"),
}


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
        _check_goes_on(argument, options.new, levels)
        experiment = _of_folder(mode, Path(argument))
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
    if options.engine == "ray":
        return Nodes(options.ray_address, resources, options.cores)
    if options.ray_address:
        raise UserError(f"--ray_address={options.ray_address}: expected --engine=ray beside it.")
    return Here(resources, options.cores, held)


def _check_goes_on(folder: str, new: bool, levels: str) -> None:
    """Refuses what an experiment that is to go on would ignore."""
    given = "--new" if new else f"--levels={levels}" if levels else ""
    if given:
        raise UserError(
            f"{given}: {folder} is an experiment that goes on as it was started. Name the spec's "
            f"file for another one; {folder}/spec.json repeats this one."
        )


def _of_folder(mode: str, folder: Path) -> Experiment:
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
    _make_writable(options.data)
    return Experiment.create(spec, mode, options.data, extra)


def _make_writable(data: Path) -> None:
    try:
        make_writable(data)
    except UserError as error:
        raise UserError(str(error).replace("--logdir", "--data")) from None


def prepare(mode: str, argument: str, levels: str) -> tuple[Spec, dict[str, Any]]:
    """The spec that a mode runs, and what else belongs to the experiment."""
    path, name = specs.split(argument)
    if mode == "benchmark":
        return _benchmark(path, name, levels)
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


def _benchmark(path: str, name: str, levels: str) -> tuple[Spec, dict[str, Any]]:
    if Path(path).is_dir() or Path(path).name == "spec.json":
        spec = specs.read(path, name)
        extra = frozen.extra_of(spec)
        if extra and levels:
            raise UserError(f"--levels={levels}: {path} has its own levels; leave it out.")
        if extra:
            return spec, extra
    every = specs.read_all(path, name)
    chosen = SETS.get(levels) or [part.strip() for part in levels.split(",") if part.strip()]
    if not chosen:
        raise UserError(
            f"--levels={levels}: expected {', '.join(SETS)}, or levels with commas between."
        )
    if twice := next((level for level in chosen if list(chosen).count(level) > 1), ""):
        raise UserError(f"--levels={levels}: {twice} is given twice; expected each level once.")
    known = {one.name: one.content() for one in every}
    for one in every:
        for level in chosen:
            if "-" not in level and ":" not in level and level not in SETS and not _is_known(level):
                near = closest(level, SETS)
                raise UserError(
                    f"--levels={levels}: found {level}; expected a set or levels. {near}"
                )
            specs.for_level(one.name, one.content(), level, path)
        for level, own in one.by_level.items():
            if level not in chosen:
                expected = f"one of the levels that are played. {closest(level, chosen)}"
                refuse(f"{path}: {one.name}.by_level.{level}", own, expected)
    _check_alike(every, path)
    standard = every[0].meta.standard
    if len(chosen) > 1 and standard != Standard():
        expected = "nothing here: a benchmark of several levels has the usual figures of each"
        refuse(f"{path}: {every[0].name}.meta.standard", dataclasses.asdict(standard), expected)
    title = specs.benchmark_of(path, name)
    base = specs.parse(title, {**every[0].content(), "search": {}}, path)
    return base, {"specs": known, "levels": list(chosen)}


def _is_known(level: str) -> bool:
    try:
        names.find(level)
    except UserError:
        return False
    return True


def _check_alike(every: Sequence[Spec], path: str) -> None:
    """Refuses specs that one benchmark cannot run alike."""
    first, *others = every
    wanted = _flat(first)
    for one in others:
        for key, value in _flat(one).items():
            if value != wanted[key]:
                expected = f"{shown(wanted[key])}, as {first.name} has: a benchmark runs all alike"
                refuse(f"{path}: {one.name}.meta.{key}", value, expected)


def _flat(spec: Spec) -> dict[str, Any]:
    """What all specs of a benchmark have in common, by its path of keys in meta."""
    found: dict[str, Any] = {}
    for key, value in dataclasses.asdict(spec.meta).items():
        if key not in MAY_DIFFER:
            parts = value if isinstance(value, dict) else {}
            found |= {f"{key}.{name}": one for name, one in parts.items()} or {key: value}
    return found


def run(experiment: Experiment, places: Places) -> int:
    """Runs an experiment to its end, or until a signal comes."""
    lock = locking.lock(experiment.folder)
    show = Progress(f"{experiment.spec.name} · {experiment.mode}")
    count = f"{plan.expected(experiment)} trial(s), {places.count()} session(s) side by side"
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
    show.say(f"Stopped. The same command goes on with {experiment.folder}.")
    return 128 + reason[0]


def closing(experiment: Experiment) -> str:
    """The last lines of an experiment: what came out, and where to look."""
    result, folder = experiment.result(), experiment.folder
    lab = script_name("bin/lab")
    lines = []
    if result["winner"] is not None:
        what = "Winner, with new seeds" if result["confirmed"] else "Best trial"
        objective = f"{result['winner_objective']:.4g}"
        own = result["default_objective"]
        beside = "" if own is None else f" (the spec's own settings: {own:.4g})"
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


def run_many(path: str, options: Any) -> int:
    """Runs the experiments of a file, one after another.

    Of a list that was stopped on its way, what is finished does not run again.
    """
    listed = _listed(path)
    finished = []
    for mode, argument, levels in listed:  # refuses mistakes before the first one starts
        found: Experiment | None
        if Path(argument).is_dir():  # this experiment, and no newer one of the same spec
            _check_goes_on(argument, options.new, levels)
            found = _of_folder(mode, Path(argument))
            spec = found.spec
        else:
            spec, extra = prepare(mode, argument, levels)
            found = None if options.new else newest(options.data, spec, mode, extra)
        places_of(spec.meta.resources, options, found.held_memory() if found else 0)
        if found:
            locking.check_free(found.folder)
        finished.append(found if found and found.result() else None)
    if options.detach:
        _make_writable(options.data)
        log = options.data / f"{Path(path).stem}.log"
        size = log.stat().st_size if log.exists() else 0
        command = ["run", path, *(["--new"] if options.new else [])]
        process = detach(command, log, options, lambda _: log.stat().st_size > size)
        print(f"{path} runs in process {process}; its output is in {log}.")
        return 0
    codes = []
    for (mode, argument, levels), before in zip(listed, finished, strict=True):
        if before and not all(finished):
            print(f"{before.folder} is finished.")
            continue
        codes.append(start(mode, argument, options, levels))
        if codes[-1] > 128:  # it was stopped
            return codes[-1]
    return max(codes, default=0)


def _listed(path: str) -> list[tuple[str, str, str]]:
    """The mode, spec and levels of each entry ``{spec file: {spec name: mode}}`` of a file.

    A mode in place of the names is that of the whole file. Levels stand behind ``benchmark``.
    """
    found = []
    for file, modes in files.load(Path(path), path).items():
        beside = Path(file) if Path(file).exists() else Path(path).parent / file
        for name, given in modes.items() if isinstance(modes, dict) else [("", modes)]:
            mode, _, levels = str(given).partition(" ")
            if mode not in MODES or (levels and mode != "benchmark"):
                place = f"{path}: {file}{name and '.'}{name}"
                refuse(place, given, f"a mode, such as {MODES[1]!r}. {closest(mode, MODES)}")
            found.append((mode, f"{beside}{name and ':'}{name}", levels))
    return found
