"""An experiment's folder: its frozen spec, and a record of each trial."""

import contextlib
import dataclasses
import json
import re
import shutil
import time
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.specs import frozen
from lab.specs import spec as specs
from lab.specs.spec import Spec
from lab.trials.sessions import Session
from trainer.storage.records import write_whole
from user_error import UserError

SPEC, RESULT, STUDY = "spec.json", "experiment_data.json", "study.sqlite3"
OPEN, DONE, FAILED, ENDED_EARLY = "open", "done", "failed", "stopped early"


@dataclasses.dataclass
class Trial:
    """A spec with several seeds: what it tries, and how it went."""

    number: int
    kind: str  # proposed, final, default, or what a mode without a search calls it
    settings: dict[str, Any]
    seeds: list[int]
    values: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the searched settings
    of: int | None = None  # the trial that a final repeats
    label: str = ""
    proposal: int | None = None  # its number in the study
    drawn: dict[str, Any] = dataclasses.field(default_factory=dict)  # as the study has it
    state: str = OPEN
    reason: str = ""
    results: dict[str, Any] = dataclasses.field(default_factory=dict)
    attempts: dict[str, int] = dataclasses.field(default_factory=dict)  # by session, failed ones

    @property
    def name(self) -> str:
        """How people name it."""
        return f"t{self.number}"

    @property
    def what(self) -> str:
        """What it tries, in words."""
        if self.label:
            return self.label
        again = [f"t{self.of} again"] if self.of is not None else []
        return ", ".join([*again, *(f"{name} {_short(one)}" for name, one in self.values.items())])


class Experiment:
    """Files of one experiment. All are written whole, so a kill leaves old or new ones."""

    def __init__(self, folder: Path):
        self.folder = folder
        if not (folder / SPEC).exists():
            raise UserError(f"{folder}: found no {SPEC}; expected the folder of an experiment.")
        self.spec: Spec = specs.read(folder / SPEC)
        self._sessions: dict[tuple[int, int], Session] = {}

    @classmethod
    def create(cls, spec: Spec, mode: str, data: Path, extra: Mapping[str, Any]) -> "Experiment":
        """A new folder with the spec frozen into it."""
        stamp = time.strftime("%Y_%m_%d_%H%M%S")
        base = re.sub(r"[^\w.-]", "-", spec.name)
        folder = data / f"{base}_{stamp}"
        try:
            folder = _made(folder)
            try:
                _write(folder / SPEC, frozen.freeze(spec, mode, extra))
            except OSError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        except OSError as error:
            raise UserError(f"{folder} cannot be written ({error.strerror}).") from None
        return cls(folder)

    @property
    def mode(self) -> str:
        """What it was started as: train, search, …"""
        return str(self.spec.frozen.get("mode", "train"))

    def trials(self) -> list[Trial]:
        """Every trial so far, by number."""
        found = [_read(path) for path in (self.folder / "trials").glob("*_trial_data.json")]
        return sorted(found, key=lambda trial: trial.number)

    def save(self, trial: Trial) -> None:
        """Writes a trial's record."""
        _write(self.trial_file(trial, "trial_data.json"), dataclasses.asdict(trial))

    def trial_file(self, trial: Trial, ending: str, session: int | None = None) -> Path:
        """A file about a trial, or about one of its sessions."""
        which = trial.name if session is None else f"{trial.name}_s{session}"
        return self.folder / "trials" / f"{self.spec.name}_{which}_{ending}"

    def file(self, ending: str) -> Path:
        """A file about the whole experiment."""
        return self.folder / f"{self.spec.name}_{ending}"

    def sessions(self, trial: Trial) -> list[Session]:
        """The sessions of a trial; the same objects each time, as they know their processes."""
        for place, seed in enumerate(trial.seeds):
            folder = self.folder / "sessions" / f"{trial.name}_s{place}"
            if (trial.number, place) not in self._sessions:
                self._sessions[trial.number, place] = Session(folder, trial.settings, seed)
        return [self._sessions[trial.number, place] for place in range(len(trial.seeds))]

    def held_memory(self) -> int:
        """Bytes of memory that sessions have which run on this machine now."""
        open_ones = (trial for trial in self.trials() if trial.state == OPEN)
        return sum(one.memory() for trial in open_ones for one in self.sessions(trial))

    def result(self) -> dict[str, Any]:
        """What came out; empty until it is finished."""
        try:
            return json.loads((self.folder / RESULT).read_text())
        except (OSError, ValueError):
            return {}

    def finish(self, result: Mapping[str, Any]) -> None:
        """Writes what came out."""
        _write(self.folder / RESULT, result)

    def reopen(self) -> None:
        """Lets it run on, for trials that are to run again."""
        (self.folder / RESULT).unlink(missing_ok=True)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _made(folder: Path) -> Path:
    """Makes a new folder of this name, or with a number where others have it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    numbered, count = folder, 1
    while True:
        with contextlib.suppress(FileExistsError):  # another lab may have just made it
            numbered.mkdir()
            return numbered
        count += 1
        numbered = folder.with_name(f"{folder.name}-{count}")


def _read(path: Path) -> Trial:
    """A trial's record."""
    try:
        return Trial(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path}: found no record of a trial ({error}); expected what the lab has written. "
            f"Restore it from a copy, or begin anew with {path.parents[1] / SPEC} and --new."
        ) from None


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1).encode() + b"\n")


def find(data: Path, names: Container[str] = ()) -> list[Experiment]:
    """The experiments below a folder, oldest first; those of these names if there are any."""
    found = []
    for path in sorted(data.glob(f"*/{SPEC}"), key=lambda path: path.stat().st_mtime_ns):
        if names and _name(path) not in names:  # its algorithm may be gone, or broken
            continue
        with contextlib.suppress(UserError):
            found.append(Experiment(path.parent))
    return found


def _name(path: Path) -> str:
    """The name of the spec in a file; empty if that cannot be read."""
    try:
        return str(next(iter(json.loads(path.read_text())), ""))
    except (OSError, ValueError, TypeError):
        return ""


def newest(data: Path, spec: Spec, mode: str, extra: Mapping[str, Any]) -> Experiment | None:
    """The newest experiment of the same spec."""
    for one in reversed(find(data, {spec.name})):
        same = one.spec.content() == spec.content() and one.mode == mode
        if same and frozen.extra_of(one.spec) == dict(extra):
            return one
    return None


def best(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that came to their end, best first."""
    done = [one for one in trials if one.state == DONE and one.results.get("objective") is not None]
    return sorted(done, key=lambda one: -one.results["objective"])
