"""Starts the experiments that a file lists, one after another: run."""

import sys
from pathlib import Path
from typing import Any

from lab.actions import locking
from lab.actions.starting import (
    check_goes_on,
    detach,
    make_data_writable,
    of_folder,
    places_of,
    prepare,
    start,
)
from lab.specs.errors import refuse
from lab.trials.folder import SPEC, Experiment, newest
from trainer.settings import files
from user_error import UserError, closest

MODES = ("dev", "train", "search", "benchmark")


def run_many(path: str, options: Any) -> int:
    """Runs the experiments of a file, one after another, and returns the highest exit code.

    Of a list that was stopped on its way, what is finished does not run again. Once all is, another
    round begins.
    """
    listed, begun = _listed(path), options.data / f"{Path(path).stem}.round"
    finished = []
    for mode, argument, levels in listed:  # refuses mistakes before the first one starts
        found: Experiment | None
        if Path(argument).is_dir():  # this experiment, and no newer one of the same spec
            check_goes_on(argument, options.new, levels)
            found = of_folder(mode, Path(argument))
            spec, is_over = found.spec, bool(found.result())
        else:
            spec, extra = prepare(mode, argument, levels)
            found = None if options.new else newest(options.data, spec, mode, extra)
            is_over = bool(found and found.result() and not _is_older(found, begun))
        places_of(spec.meta.resources, options, found.held_memory() if found else 0)
        if found:
            locking.check_free(found.folder)
        finished.append(found if is_over else None)
    if options.detach:
        make_data_writable(options.data)
        log = options.data / f"{Path(path).stem}.log"
        size = log.stat().st_size if log.exists() else 0
        command = ["run", path, *(["--new"] if options.new else [])]
        process = detach(command, log, options, lambda _: log.stat().st_size > size)
        print(f"{path} runs in process {process}; its output is in {log}.")
        return 0
    if options.new or all(finished):
        make_data_writable(options.data)
        begun.touch()
    codes = []
    for (mode, argument, levels), before in zip(listed, finished, strict=True):
        if before and not all(finished):
            print(f"{before.folder} is finished.")
            continue
        codes.append(_one_of_many(mode, argument, options, levels))
        if codes[-1] > 128:  # it was stopped
            return codes[-1]
    return max(codes)


def _is_older(experiment: Experiment, begun: Path) -> bool:
    """Whether an experiment is older than the round of the list; the first one has no file."""
    made = (experiment.folder / SPEC).stat().st_mtime_ns
    return begun.exists() and made < begun.stat().st_mtime_ns


def _one_of_many(mode: str, argument: str, options: Any, levels: str) -> int:
    """Runs an experiment of a list; what keeps it from running is not in the way of the others."""
    try:
        return start(mode, argument, options, levels)
    except UserError as error:
        print(f"lab: {argument}: {error}", file=sys.stderr, flush=True)
        return 2


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
    if not found:
        raise UserError(
            f'{path}: found no experiment; expected some, such as {{"specs.yaml": "{MODES[1]}"}}.'
        )
    return found
