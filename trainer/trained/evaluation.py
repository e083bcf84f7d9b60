"""``--mode=test``: plays whole games with a trained agent and reports the results."""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from environments import Episode
from trainer import build
from trainer.acting.playing import Player, play
from trainer.settings.config import Settings
from trainer.storage.records import write_whole
from trainer.trained import scoreboard, video
from trainer.trained import trained_agent as trained
from trainer.trained.human_scores import human_normalised
from trainer.trained.trained_agent import Trained

MOST_ENVIRONMENTS = 16
# Training takes its environments' seeds from smaller numbers.
FIRST_TEST_SEED = 2**40


def evaluate(settings: Settings, given: Collection[str] = ()) -> dict[str, Any]:
    """Plays, prints a table, and writes evaluation.json into the run's folder; returns it."""
    video.prepare(settings)
    found = trained.find(settings, given)
    settings = found.settings
    spec = build.level_spec(settings)
    player = Player(
        found.agent(spec), build.algorithm(settings), settings.trained.test_policy == "greedy"
    )
    console = scoreboard.console()
    console.print(
        f"Playing {settings.trained.test_num_episodes} games per level with "
        f"{settings.trained.test_policy} actions: {settings.agent.agent_name} from {found.path}, "
        f"trained for {found.environment_frames:,} frames."
    )
    results: dict[str, Any] = {}
    warnings: list[str] = []
    for level, name in enumerate(settings.level.levels):
        with scoreboard.Counter(console, name, settings.trained.test_num_episodes) as counter:
            games = _play_level(found, player, level, counter, warnings.append)
        results[name] = summary(name, games)
    console.print(scoreboard.table(results), soft_wrap=False)
    report = _report(found, results)
    mean = report["human_normalised_percent"]
    if mean is not None and len(results) > 1:
        console.print(f"Human-normalised, mean over levels: {mean:.1f}%")
    if settings.trained.video:
        console.print(warnings[0] if warnings else f"Video: {settings.trained.video} (first game)")
    console.print(_written(found.folder / "evaluation.json", report))
    return report


def _play_level(
    found: Trained,
    player: Player,
    level: int,
    counter: scoreboard.Counter,
    warn: Callable[[str], None],
) -> list[Episode]:
    settings = found.settings
    if level:
        settings = settings.replace(video="")  # the video shows the first level
    count = min(settings.trained.test_num_episodes, MOST_ENVIRONMENTS)
    seed = seed_of_level(settings.program.seed, level)
    environment = build.test_environment(settings, level, count, seed)
    try:
        value = found.value(environment.spec.level_name)
        with video.spectators(settings, environment, value, warn) as onlookers:
            return play(
                environment,
                player,
                settings.trained.test_num_episodes,
                seed=settings.program.seed,
                onlookers=onlookers,
                finished=counter.add,
            )
    finally:
        environment.close()


def seed_of_level(seed: int, level: int) -> int:
    """The seed from which a level's test environments draw theirs."""
    return FIRST_TEST_SEED * (level + 1) + seed


def summary(level_name: str, episodes: list[Episode]) -> dict[str, Any]:
    """The figures of an evaluation on one level."""
    returns = [episode.raw_return for episode in episodes]
    lengths = [episode.length for episode in episodes]
    return {
        "episodes": len(episodes),
        "mean": float(np.mean(returns)),
        "median": float(np.median(returns)),
        "standard_deviation": float(np.std(returns, ddof=1)) if len(returns) > 1 else None,
        "min": min(returns),
        "max": max(returns),
        "mean_length": float(np.mean(lengths)),
        "human_normalised_percent": human_normalised(level_name, float(np.mean(returns))),
        "returns": returns,
        "lengths": lengths,
        "frames": [episode.frames for episode in episodes],
    }


def _report(found: Trained, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    percents = [figures["human_normalised_percent"] for figures in results.values()]
    known = [percent for percent in percents if percent is not None]
    return {
        "checkpoint": str(found.path.resolve()),
        "environment_frames": found.environment_frames,
        "policy": found.settings.trained.test_policy,
        "seed": found.settings.program.seed,
        "human_normalised_percent": float(np.mean(known)) if known else None,
        "levels": results,
        "settings": found.settings.flat(),
    }


def _written(path: Path, report: dict[str, Any]) -> str:
    """Writes the report; returns the line to print about it, also if it could not be written."""
    try:
        write_whole(path, json.dumps(report, indent=2).encode() + b"\n")
    except OSError as error:
        return f"warning: {path} could not be written ({error.strerror})."
    return f"All returns and lengths: {path}"
