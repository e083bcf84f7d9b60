"""``--mode=test``: plays whole games with a trained agent and reports the results."""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from environments import EnvironmentSpec, VectorEnvironment
from trainer import build
from trainer.acting.playing import Game, Player, play
from trainer.settings import grid
from trainer.settings.config import Settings
from trainer.storage import fetching
from trainer.storage.records import write_report
from trainer.trained import agents_of_run, grid_report, scoreboard, video
from trainer.trained import trained_agent as trained
from trainer.trained.human_scores import human_normalised
from trainer.trained.opponent import Anyhow, against, own_games, own_rows
from trainer.trained.trained_agent import Trained
from user_error import UserError

MOST_ENVIRONMENTS = 16
RESAMPLED = 2_000
# Training takes its environments' seeds from smaller numbers.
FIRST_TEST_SEED = 2**40


class Place(NamedTuple):
    """Where games are played, and what says so in names of files, of videos too."""

    # From settings, the level's number, how many, their seed, and the agent's spec.
    make: Callable[[Settings, int, int, int, EnvironmentSpec], VectorEnvironment]
    suffix: str = ""  # of files
    words: str = ""  # in lines
    endless: bool = False  # games may go on for ever: --step_limit=-1 cuts them as in a training


REAL = Place(build.test_environment)


def evaluate(
    settings: Settings, given: Collection[str] = (), place: Place = REAL
) -> dict[str, Any]:
    """Plays, prints a table, and writes evaluation.json into the run's folder; returns it."""
    if settings.trained.checkpoint == fetching.NAMED:
        print(fetching.listing(settings.storage.registry))
        return {}
    of_all = agents_of_run.settings_of(settings, given)
    if of_all:
        return _evaluate_agents(of_all, given)
    found = trained.find(settings, given)
    video.prepare(settings, found.folder)
    spec = found.spec()
    agent = found.agent(spec)
    console = scoreboard.console()
    if settings.trained.grid:
        return _evaluate_grid(found, agent, spec, console, place)
    settings = found.settings
    console.print(
        f"Playing {settings.trained.test_num_episodes} games per level{place.words} with "
        f"{settings.trained.test_policy} actions: {found.about}."
    )
    results, warnings = _play(found, agent, spec, console, place)
    scoreboard.print_figures(console, _with_bodies(results))
    report = _report(found, results)
    mean = report["human_normalised_percent"]
    if mean is not None and len(results) > 1:
        known = sum(one["human_normalised_percent"] is not None for one in results.values())
        of = "levels" if known == len(results) else f"{known} of {len(results)} levels"
        console.print(f"Human-normalised, mean over {of}: {mean:.1f}%")
    _print_video(console, video.named(settings.trained.video, place.suffix), warnings)
    console.print(_written(found.folder / f"evaluation{place.suffix}.json", report))
    return report


def _print_video(console: Console, path: str, warnings: list[str]) -> None:
    """Says what has come of ``--video``, after all warnings."""
    for warning in warnings:
        console.print(warning)
    if path and not any(path in one for one in warnings):
        console.print(f"Video: {path} (first game)")


def _evaluate_grid(
    found: Trained, agent: Any, spec: EnvironmentSpec, console: Console, place: Place
) -> dict[str, Any]:
    """Plays each combination of ``--grid``, prints a table, and writes figures and a picture."""
    settings, cells = found.settings, grid.cells(found.settings.trained.grid)
    console.print(f"Playing {len(cells)} combinations of settings{place.words}: {found.about}.")
    path = found.folder / f"evaluation_grid{place.suffix}.json"
    played: list[grid_report.Played] = []
    written = ""
    try:
        for cell in cells:
            of_cell = dataclasses.replace(found, settings=settings.replace(**cell.changes))
            results, warnings = _play(of_cell, agent, spec, console, place, cell.name)
            for warning in warnings:
                console.print(warning)
            for level, figures in results.items():
                played.append(grid_report.Played(cell, of_cell.settings, level, figures))
            # Now: the next combination may take long, and end by an error or a signal.
            report = _report(found, {}) | {"grid": grid_report.as_json(played)}
            written = _written(path, report)
    finally:
        if written:
            scoreboard.print_figures(console, grid_report.rows(played), "settings")
            console.print(written)
    frames = found.environment_frames
    title = f"{settings.agent.agent_name} after {frames:,} frames of training{place.words}"
    for line in grid_report.write(found.folder, title, frames, played, place.suffix):
        console.print(line)
    return report


def _evaluate_agents(settings: Settings, given: Collection[str]) -> dict[str, Any]:
    """The same with the agents of a run of several, which play each other or ``--opponent``."""
    video.prepare(settings, Path(settings.run_folder))
    console = scoreboard.console()
    agents = agents_of_run.find(settings, given)
    test = settings.trained
    console.print(
        f"Playing {test.test_num_episodes} games per level with {test.test_policy} actions."
    )
    for one in agents:
        console.print(f"{one.agent.name}: {one.about}.")
    results: dict[str, dict[str, Any]] = {}
    warnings: list[str] = []
    for level, name in enumerate(settings.level.levels):
        if not any(one.found and level in one.agent.bodies for one in agents):
            continue  # only the opponent would play there
        count = min(test.test_num_episodes, MOST_ENVIRONMENTS)
        seed = seed_of_level(settings.program.seed, level)
        with scoreboard.Counter(console, name, test.test_num_episodes) as counter:
            played = agents_of_run.play_level(
                settings, agents, level, count, seed, counter, warnings.append
            )
        for agent, spec, games in played:
            results[f"{agent} on {name}" if len(settings.level.levels) > 1 else agent] = _figures(
                spec, games
            )
    scoreboard.print_figures(console, _with_bodies(results), "agent")
    _print_video(console, test.video, warnings)
    report = agents_of_run.report(settings, agents) | {"levels": results}
    console.print(_written(Path(settings.run_folder) / "evaluation.json", report))
    return report


def _play(
    found: Trained,
    agent: Any,
    spec: EnvironmentSpec,
    console: Console,
    place: Place,
    cell: str = "",
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The figures of each level, and warnings."""
    settings = found.settings
    test = settings.trained
    greedy = test.test_policy == "greedy"
    player = Player(agent, build.algorithm(settings), greedy, test.test_temperature)
    results: dict[str, dict[str, Any]] = {}
    warnings: list[str] = []
    for level, name in enumerate(settings.level.levels):
        title = f"{name} {cell}".strip()
        with scoreboard.Counter(console, title, test.test_num_episodes) as counter:
            results[name] = _play_level(
                found, player, spec, level, cell, counter, warnings.append, place
            )
    return results, warnings


def _with_bodies(results: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """A row for each level, and one for each of several bodies."""
    rows: dict[str, dict[str, Any]] = {}
    for level, figures in results.items():
        rows[level] = figures
        for body, mine in figures.get("bodies", {}).items():
            name = f"  {body}"
            rows[name if name not in rows else f"{name}, {level}"] = mine
    return rows


def _play_level(
    found: Trained,
    player: Player,
    made_for: EnvironmentSpec,
    level: int,
    cell: str,
    counter: scoreboard.Counter,
    warn: Callable[[str], None],
    place: Place,
) -> dict[str, Any]:
    settings = found.settings
    if level:
        settings = settings.replace(video="")  # the video shows the first level
    test = settings.trained
    count = min(test.test_num_episodes, MOST_ENVIRONMENTS)
    limit = test.steps_alongside if place.endless else test.steps_of_test
    seed = seed_of_level(settings.program.seed, level)
    environment = place.make(settings, level, count, seed, made_for)
    try:
        spec = environment.spec
        if settings.trained.test_policy == "random":
            player = Anyhow(player, spec)
        value = found.value(spec.level_name)
        bodies = 1 if settings.trained.opponent else spec.num_bodies
        counter.total = settings.trained.test_num_episodes * bodies
        rows = own_rows(settings, environment)
        movies = video.files(settings, found.folder, level, cell, rows, place.suffix)
        with video.spectators(settings, environment, value, movies, warn) as onlookers:
            games = play(
                environment,
                against(settings, spec, player),
                settings.trained.test_num_episodes,
                seed=settings.program.seed,
                step_limit=limit,
                onlookers=onlookers,
                finished=lambda game: counter.add(
                    [one.raw_return for one in own_games(settings, spec, [game])]
                ),
            )
        return _figures(spec, own_games(settings, spec, games))
    finally:
        environment.close()


def _figures(spec: EnvironmentSpec, games: list[Game]) -> dict[str, Any]:
    """The figures of a level, and of each body where a game has several."""
    figures, bodies = summary(spec.level_name, games), {}
    for index, body in enumerate(spec.bodies):
        mine = [game for game in games if game.environment % spec.num_bodies == index]
        if mine:
            bodies[body] = summary(spec.level_name, mine)
    if bodies:
        figures["bodies"] = bodies
    rows = {game.environment for game in games}
    if len({row // spec.num_bodies for row in rows}) < len(rows):
        # Returns of one game are alike: there are fewer of them than it seems.
        figures["interval_of_mean"] = None
    return figures


def seed_of_level(seed: int, level: int) -> int:
    """The seed from which a level's test environments draw theirs."""
    return FIRST_TEST_SEED * (level + 1) + seed


def summary(level_name: str, games: list[Game]) -> dict[str, Any]:
    """The figures of an evaluation on one level."""
    if not games:
        raise UserError(
            f"--level_name={level_name}: no game was played, of which figures could be made; "
            "expected at least one. Look at what is printed above."
        )
    returns = [game.raw_return for game in games]
    clipped = [game.clipped_return for game in games]
    lengths = [game.length for game in games]
    return {
        "episodes": len(games),
        "unfinished": sum(not game.finished for game in games),
        "mean": float(np.mean(returns)),
        "interval_of_mean": interval_of_mean(returns),
        "clipped_mean": float(np.mean(clipped)),
        "median": float(np.median(returns)),
        "standard_deviation": float(np.std(returns, ddof=1)) if len(returns) > 1 else None,
        "min": min(returns),
        "max": max(returns),
        "mean_length": float(np.mean(lengths)),
        "human_normalised_percent": human_normalised(level_name, float(np.mean(returns))),
        "returns": returns,
        "clipped_returns": clipped,
        "lengths": lengths,
        "frames": [game.frames for game in games],
        "finished": [game.finished for game in games],
    }


def interval_of_mean(returns: Sequence[float]) -> list[float] | None:
    """The range in which 95% of means lie that are drawn from these returns; None for a single one.

    Returns of games are rarely distributed normally, so they are drawn again instead.
    """
    if len(returns) < 2:
        return None
    random = np.random.default_rng(0)
    means = [random.choice(returns, len(returns)).mean() for _ in range(RESAMPLED)]
    low, high = np.percentile(means, [2.5, 97.5])
    return [float(low), float(high)]


def _report(found: Trained, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    percents = [figures["human_normalised_percent"] for figures in results.values()]
    known = [percent for percent in percents if percent is not None]
    return {
        "checkpoint": str(found.path.resolve()),
        "environment_frames": found.environment_frames,
        "opponent": found.settings.trained.opponent,
        "policy": found.settings.trained.test_policy,
        "temperature": found.settings.trained.test_temperature,
        "seed": found.settings.program.seed,
        "human_normalised_percent": float(np.mean(known)) if known else None,
        "levels": results,
        "settings": found.settings.flat(),
    }


def _written(path: Path, report: dict[str, Any]) -> str:
    """Writes the report; returns the line to print about it, also if it could not be written."""
    return grid_report.written(
        ("All returns and lengths", path, lambda: write_report(path, report))
    )[0]
