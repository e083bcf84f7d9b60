"""The agents of a run of several, which play the games of their training with each other."""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from environments import EnvironmentSpec
from trainer import build, seats
from trainer.acting.playing import Game, Player, play_shared
from trainer.seats import OneOf
from trainer.settings import config, seating
from trainer.settings.config import Settings
from trainer.storage.records import SETTINGS
from trainer.trained import scoreboard, trained_agent, video
from trainer.trained.opponent import Anyhow, instead
from trainer.trained.trained_agent import Trained
from user_error import UserError


@dataclasses.dataclass(frozen=True)
class Playing:
    """One of the agents, and what plays its bodies."""

    agent: OneOf
    player: Player
    found: Trained | None  # None: the opponent plays in its place

    @property
    def about(self) -> str:
        """Who plays."""
        return self.found.about if self.found else "the opponent plays in its place"


def settings_of(settings: Settings, given: Collection[str]) -> Settings | None:
    """The settings of a run of several agents; None if ``--logdir`` is that of one agent.

    Without ``--logdir``, a checkpoint's file, address or name is one agent's, too, whatever has
    been trained in the level's usual folder.
    """
    if not (settings.storage.logdir or settings.level.agents or _is_of_run(settings)):
        return None
    folder = Path(settings.run_folder)
    try:
        record = json.loads((folder / SETTINGS).read_text())
    except (OSError, ValueError):
        record = None
    record = record if isinstance(record, dict) else {}
    if not settings.level.agents and (
        not record.get("agents") or (folder / "checkpoints").exists()
    ):
        return None
    _check(settings)
    changes = trained_agent.taken_over(record, settings, given)
    found = config.from_record(settings.flat() | {"logdir": str(folder)} | changes)
    seating.check(found.level)
    if found.program.agent:
        seating.check_agent(found.level, found.program.agent)
    if bool(found.program.agent) != bool(found.trained.opponent):
        given_one = found.program.agent and f"--agent={found.program.agent}"
        raise UserError(
            f"{given_one or f'--opponent={found.trained.opponent}'}: expected both --agent, which "
            f"of {found.level.agents} plays, and --opponent, who plays in place of the others; or "
            "neither, then all agents play."
        )
    return found


def _check(settings: Settings) -> None:
    trained = settings.trained
    if trained.grid or trained.watch or trained.num_videos:
        flag = "grid" if trained.grid else "watch" if trained.watch else "num_videos"
        raise UserError(
            f"--{flag} is for one agent: give --logdir={settings.run_folder}/agents/NAME, or leave "
            "it out."
        )
    if not _is_of_run(settings):
        raise UserError(
            f"--checkpoint={trained.checkpoint}: the run in {settings.run_folder} has several "
            "agents; expected newest, best or a number of frames, of each of them."
        )


def _is_of_run(settings: Settings) -> bool:
    """Whether ``--checkpoint`` is one of those in the run's folder."""
    which = settings.trained.checkpoint
    return which in ("newest", "best") or which.isdecimal()


def find(settings: Settings, given: Collection[str]) -> list[Playing]:
    """The checkpoints of all agents that play."""
    found = []
    for agent in seats.agents_of(settings):
        chosen = settings.program.agent
        if chosen and agent.name != chosen:
            found.append(Playing(agent, instead(settings, agent.spec), None))
            continue
        one = trained_agent.find(agent.settings, given)
        test = settings.trained
        player = Player(
            one.agent(agent.spec),
            build.algorithm(one.settings),
            test.test_policy == "greedy",
            test.test_temperature,
        )
        if test.test_policy == "random":
            player = Anyhow(player, agent.spec)
        found.append(Playing(agent, player, one))
    return found


def play_level(
    settings: Settings,
    agents: list[Playing],
    level: int,
    count: int,
    seed: int,
    counter: scoreboard.Counter,
    warn: Callable[[str], None],
) -> list[tuple[str, EnvironmentSpec, list[Game]]]:
    """Plays ``count`` games of a level at a time; the name, spec and games of each agent."""
    there = [one for one in agents if level in one.agent.bodies]
    shares = [one.agent.bodies[level] for one in there]
    environment = build.shared_test_environment(settings, level, count, seed, shares)
    with contextlib.closing(environment), contextlib.ExitStack() as stack:
        counted = [part for one, part in zip(there, environment.parts, strict=True) if one.found]
        counter.total *= sum(part.spec.num_bodies for part in counted)
        onlookers: list[Any] = [()] * len(there)
        if settings.trained.video and level == _first_level(agents):
            shown, chosen = next((i, one.found) for i, one in enumerate(there) if one.found)
            part = environment.parts[shown]
            onlookers[shown] = stack.enter_context(
                video.spectators(
                    chosen.settings.replace(video=settings.trained.video),
                    part,
                    chosen.value(part.spec.level_name),
                    {0: Path(settings.trained.video)},
                    warn,
                )
            )

        def finished(agent: int, game: Game) -> None:
            if there[agent].found:
                counter.add([game.raw_return])

        games = play_shared(
            environment,
            [one.player for one in there],
            settings.trained.test_num_episodes,
            seed=settings.program.seed,
            step_limit=settings.trained.steps_of_test,
            onlookers=onlookers,
            finished=finished,
        )
        specs = [part.spec for part in environment.parts]
    return [
        (one.agent.name, spec, mine)
        for one, spec, mine in zip(there, specs, games, strict=True)
        if one.found
    ]


def _first_level(agents: list[Playing]) -> int:
    """The first level that a trained agent plays: the video shows it."""
    return min(level for one in agents if one.found for level in one.agent.bodies)


def report(settings: Settings, agents: list[Playing]) -> dict[str, Any]:
    """What evaluation.json says besides the games."""
    found = {one.agent.name: one.found for one in agents if one.found}
    return {
        "checkpoint": settings.run_folder,
        "environment_frames": max(one.environment_frames for one in found.values()),
        "agents": {
            name: {
                "checkpoint": str(one.path.resolve()),
                "environment_frames": one.environment_frames,
            }
            for name, one in found.items()
        },
        "opponent": settings.trained.opponent,
        "policy": settings.trained.test_policy,
        "temperature": settings.trained.test_temperature,
        "seed": settings.program.seed,
        "settings": settings.flat(),
    }
