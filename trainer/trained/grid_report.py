"""What an evaluation of several settings leaves: figures, a picture and TensorBoard's curves."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trainer.reporting.curve import BLUE, GREY, png
from trainer.reporting.events import EventsFile
from trainer.settings.config import Settings
from trainer.settings.grid import NAMES, Cell
from trainer.storage.records import write_whole

PICTURE = "evaluation_grid"
EVENTS = "evaluation"  # a folder of its own: TensorBoard shows it as a run
IN_NAME = ("test_policy", "test_temperature", "noop_max")  # settings that every tag names


@dataclasses.dataclass(frozen=True)
class Played:
    """A combination of settings on a level, and its figures (``evaluation.summary``)."""

    cell: Cell
    settings: Settings
    level: str
    figures: dict[str, Any]

    @property
    def tag(self) -> str:
        """The beginning of its names in TensorBoard, as tensor2tensor's evaluator has them."""
        test, flat = self.settings.trained, self.settings.flat()
        temperature = 0.0 if test.test_policy == "greedy" else test.test_temperature
        name = f"sampling_temp_{temperature:g}_max_noops_{self.settings.level.noop_max}"
        if test.test_policy == "random":
            name = f"random_max_noops_{self.settings.level.noop_max}"
        if test.opponent:
            name += f"_against_{test.opponent}"
        further = [NAMES[one] for one in self.cell.values if NAMES[one] not in IN_NAME]
        return "_".join([f"mean_reward/eval/{name}", *(f"{one}_{flat[one]}" for one in further)])


def rows(played: Sequence[Played]) -> dict[str, dict[str, Any]]:
    """Figures by the names of their rows in a table or picture."""
    several = len({one.level for one in played}) > 1
    return {
        (f"{one.level} {one.cell.name}" if several else one.cell.name): one.figures
        for one in played
    }


def as_json(played: Sequence[Played]) -> list[dict[str, Any]]:
    """The same for a file."""
    return [{"level": one.level, "settings": one.cell.changes} | one.figures for one in played]


def write(
    folder: Path, title: str, frames: int, played: Sequence[Played], suffix: str = ""
) -> list[str]:
    """Writes the picture and the events; returns a line about each, also if it failed.

    ``suffix`` ends the names of both.
    """
    picture, events = folder / f"{PICTURE}{suffix}.png", folder / f"{EVENTS}{suffix}"
    return written(
        ("Picture", picture, lambda: _draw(picture, title, rows(played))),
        ("TensorBoard", events, lambda: add_events(events, frames, _by_tag(played))),
    )


def written(*files: tuple[str, Path, Callable[[], None]]) -> list[str]:
    """Writes each of these files by its function; returns a line about each, also if it failed."""
    lines = []
    for what, path, write_it in files:
        try:
            write_it()
            lines.append(f"{what}: {path}")
        except OSError as error:
            lines.append(f"warning: {path} could not be written ({error.strerror}).")
    return lines


def add_events(folder: Path, step: int, figures: Mapping[str, Any]) -> None:
    """Adds an evaluation to TensorBoard's curves; may raise OSError.

    Readers forget whatever has a later step than what follows it. So there is one file, written
    anew, with all evaluations in the order of their steps, whichever was made first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = list(folder.glob("events.out.tfevents.*"))
    steps = _steps(folder)
    steps[step] = steps.get(step, {}) | dict(figures)
    events = EventsFile(folder)
    events.add_all([steps[one] | {"environment_frames": one} for one in sorted(steps)])
    if events.error:
        raise events.error
    for path in before:
        path.unlink(missing_ok=True)


def _steps(folder: Path) -> dict[int, dict[str, Any]]:
    """The figures of each step in the folder's files, the newest where there are several."""
    everything = {"scalars": 0}
    curves = EventAccumulator(str(folder), size_guidance=everything, purge_orphaned_data=False)
    curves.Reload()
    found: dict[int, dict[str, Any]] = {}
    for tag in curves.Tags()["scalars"]:
        for event in curves.Scalars(tag):
            found.setdefault(event.step, {})[tag] = event.value
    return found


def _by_tag(played: Sequence[Played]) -> dict[str, float]:
    """What TensorBoard shows of an evaluation."""
    several = len({one.level for one in played}) > 1
    figures = {}
    for one in played:
        tag = f"{one.tag}_{one.level}" if several else one.tag
        figures[f"{tag}_unclipped"] = one.figures["mean"]
        figures[f"{tag}_clipped"] = one.figures["clipped_mean"]
    return figures


def _draw(path: Path, title: str, figures: dict[str, dict[str, Any]]) -> None:
    """A line for each row: every game's return, their mean and its interval."""
    from matplotlib.figure import Figure  # takes a second to import

    drawing = Figure(figsize=(9, 1.6 + 0.34 * len(figures)), layout="constrained")
    drawing.suptitle(title, fontsize=9)
    axes = drawing.subplots()
    for place, row in enumerate(figures.values()):
        axes.plot(row["returns"], [place] * len(row["returns"]), "|", color=GREY, alpha=0.7)
        low, high = row["interval_of_mean"] or (row["mean"], row["mean"])
        axes.plot([low, high], [place, place], color=BLUE, linewidth=3, alpha=0.5)
        axes.plot(row["mean"], place, "o", color=BLUE)
        cut = row["unfinished"]
        note = f"  {row['mean']:,.1f}" + (f", {cut} cut off" if cut else "")
        axes.annotate(note, (1, place), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    axes.set_yticks(range(len(figures)), list(figures), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("raw return: each game, their mean and the range of 95% of such means")
    axes.grid(axis="x", alpha=0.3)
    write_whole(path, png(drawing))
