"""Compares experiments: the best trial of each in one table and one graph."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from lab.results import graphs, tables
from lab.results.curves import Curve, curve_of
from lab.trials import plan
from lab.trials.folder import Experiment
from user_error import UserError


def compare(folders: Sequence[str], out: Path) -> int:
    """Writes OUT.csv and OUT.png, and prints the table in Markdown."""
    rows, groups = [], {}
    for folder in folders:
        experiment = Experiment(Path(folder))
        trial = next(iter(plan.ranked(experiment.trials())), None)
        if trial is None:
            raise UserError(f"{folder}: found no trial that came to its end; expected one.")
        name = (
            experiment.spec.name if experiment.spec.name not in groups else experiment.folder.name
        )
        curves = [curve_of(session.rows()) for session in experiment.sessions(trial)]
        groups[name] = curves
        rows.append(
            {
                "experiment": name,
                "trial": trial.name,
                "seeds": len(trial.seeds),
                "level": trial.settings["level_name"],
                "settings": trial.what,
                "objective": trial.results["objective"],
                **tables.fitness_columns(trial.results),
                "frames": trial.results["frames"],
                "folder": str(experiment.folder),
            }
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    tables.write(Path(f"{out}.csv"), list(rows[0]), rows)
    draw(Path(f"{out}.png"), groups)
    shown = ["experiment", "trial", "seeds", "level", "objective", "best_return", "final_return"]
    print(tables.markdown(shown, rows))
    print(f"Written: {out}.csv, {out}.png")
    return 0


def draw(path: Path, groups: dict[str, list[Curve]]) -> None:
    """The curves of all of them, with their spread."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    graphs.draw_spread(figure, groups)
    graphs.save(figure, path)
