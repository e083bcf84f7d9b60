"""``--mode=test --algorithm=simple``: the policy in the real game and in the model, and the model.

The first two are evaluations like any other, one of them with dreams in place of the level.
"""

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any

from environments import EnvironmentSpec, VectorEnvironment
from trainer.settings import config, grid
from trainer.settings.config import Settings
from trainer.storage.records import write_report, write_whole
from trainer.trained import evaluation, grid_report, scoreboard, trained_agent
from trainer.trained.evaluation import Place
from trainer.trained.trained_agent import Trained
from user_error import UserError
from world_models.trained import model_report, opened
from world_models.trained.opened import Opened
from world_models.training import evaluating, folders, pictures, playing
from world_models.training.experience import Experience
from world_models.training.policy_phase import dreams

# Real play for evaluation shares no seed with that of a training.
START = 2**40
GAMES = 8
ENDLESS = 2**31 - 1


def test(settings: Settings, given: Collection[str] = ()) -> dict[str, Any]:
    """Evaluates ``--subjects``; returns the report of each."""
    run = opened.opened(settings, given)
    subjects = run.settings.algorithm.subjects.split(",")
    policy = run.folder and playing.has_policy(run.settings)
    if not policy and subjects != ["model"]:
        source = run.folder or "a model's file"
        if "subjects" in given:
            raise UserError(
                f"--subjects={','.join(subjects)}: {source} has no policy; name the folder of a "
                "run with --logdir, or give --subjects=model."
            )
        print(f"{source} has no policy: only the model is evaluated.")
        subjects = ["model"]
    plain, named = _of_policy(settings, given, run)
    found = _policy(plain, named, run) if policy and subjects != ["agent_real"] else None
    reports: dict[str, Any] = {}
    if "agent_real" in subjects:
        reports["agent_real"] = evaluation.evaluate(plain, named)
    if "agent_simulated" in subjects:
        limited = plain.replace(step_limit=plain.trained.steps_alongside)
        place = Place(_dreaming(run), "_in_model", " in the model", endless=True)
        reports["agent_simulated"] = evaluation.evaluate(limited, {*named, "step_limit"}, place)
    if "model" in subjects:
        reports["model"] = _evaluate_model(run, found)
    return reports


def _policy(plain: Settings, named: Collection[str], run: Opened) -> Trained:
    """The policy beside the model, with its own settings but for those that were ``named``."""
    where = folders.of(run.settings).policy
    found = trained_agent.find(plain.replace(logdir=str(where)), named)
    theirs, ours = found.spec(), run.spec
    for what in ("observation_space", "action_space"):
        if getattr(theirs, what) != getattr(ours, what):
            raise UserError(
                f"the policy in {where} has the {what.replace('_', ' ')} {getattr(theirs, what)}, "
                f"and the world model in {run.where} {getattr(ours, what)}; expected a model of "
                "the same game, seen in the same way. Choose another one, or leave --logdir out."
            )
    return found


def _of_policy(
    settings: Settings, given: Collection[str], run: Opened
) -> tuple[Settings, set[str]]:
    """The settings of a test of the policy, and which of them were given."""
    own = {field.name for field in dataclasses.fields(settings.algorithm)} | {"algorithm"}
    flat, known = settings.flat(), {field.name for field in config.fields()}
    named = {name for name in given if name in known - own}
    values = {name: flat[name] for name in named}
    return Settings(**values | {"mode": "test", "logdir": run.settings.run_folder}), named


def _dreaming(run: Opened) -> Any:
    starts = opened.starts(run)

    def make(
        settings: Settings, level: int, count: int, seed: int, made_for: EnvironmentSpec
    ) -> VectorEnvironment:
        # One is counted when --step_limit cuts it, and then makes room for the next.
        limit = settings.trained.steps_alongside
        length = limit + 1 if limit else ENDLESS
        return dreams(run.spec, run.model, starts, seed, count, length, true_starts=1.0)

    return make


def _evaluate_model(run: Opened, policy: Trained | None) -> dict[str, Any]:
    """Compares the model with new real play for each combination of ``--grid``."""
    settings = run.settings
    cells = [_compared(run, policy, cell) for cell in grid.cells(settings.trained.grid)]
    names = [name for name, _, _ in cells]
    figures = [found for _, found, _ in cells]
    console = scoreboard.console()
    console.print(
        f"Comparing the model of {run.where}, {run.model.updates:,} updates, with real play."
    )
    model_report.print_figures(console, dict(zip(names, figures, strict=True)))
    report = {"updates": run.model.updates, "model": str(run.where.resolve()), "cells": figures}
    if run.folder:
        for line in _written(run.folder, report, names, cells[0][2]):
            console.print(line)
    else:
        console.print("Nothing is written; --logdir=FOLDER keeps figures, a picture and a video.")
    return report


def _written(
    folder: Path, report: dict[str, Any], names: list[str], shown: evaluating.Rollouts
) -> list[str]:
    """Writes all of the report; returns a line about each file, also if it failed."""
    length = int(shown.valid[0].sum())
    pair = shown.predicted[0, :length], shown.real[0, :length]
    name = folder / "evaluation_model"
    figures, picture, video = (name.with_suffix(one) for one in (".json", ".png", ".mp4"))

    def write_picture() -> None:
        write_whole(picture, pictures.png(pictures.strip(*pair)))

    return [
        *grid_report.written(
            ("All figures", figures, lambda: write_report(figures, report)),
            ("A rollout beside what was real", picture, write_picture),
            ("The same as a video", video, lambda: pictures.write_video(video, *pair)),
        ),
        *model_report.write(folder, report["updates"], names, report["cells"]),
    ]


def _compared(
    run: Opened, policy: Trained | None, cell: grid.Cell
) -> tuple[str, dict[str, Any], evaluating.Rollouts]:
    """The name of a combination, its figures, and rollouts to show."""
    settings = run.settings.replace(**cell.changes)
    own, test, seed = settings.algorithm, settings.trained, settings.program.seed
    count = min(GAMES, own.real_envs)
    choose = None
    if policy and test.test_policy != "random":
        greedy = test.test_policy == "greedy"
        choose = playing.by_agent(policy, count, seed, greedy, test.test_temperature)
    by = test.test_policy if choose else "random"
    choose = choose or playing.at_random(run.model.sizes.actions, seed)
    parts, steps = [], 0
    with playing.real_game(settings, count, START + seed) as game:
        games = playing.Games(game)
        while steps < own.played_steps:
            part, _ = games.play(choose, own.played_steps - steps)
            if part.steps:  # else no game is there: remotes may be away
                parts.append(part)
                steps += part.steps
    real = Experience(parts, run.model.sizes.frames)
    found, shown = evaluating.evaluate(run.model, real, seed, own.rollout_steps, own.rollouts)
    about = {
        "played_by": by,
        "temperature": 0.0 if by == "greedy" else test.test_temperature,
        "noop_max": settings.level.noop_max,
        "seed": seed,
        "real_steps": steps,
    }
    return cell.name or by, about | {"settings": cell.changes} | found, shown
