"""Several agents in the same games: the settings, the levels and the bodies of each."""

import dataclasses
from collections.abc import Mapping, Sequence

import environments
from environments import EnvironmentSpec, SharedEnvironment, check_alike
from trainer import build
from trainer.reporting import several
from trainer.settings import seating, sizes
from trainer.settings.config import Settings


@dataclasses.dataclass(frozen=True)
class OneOf:
    """One of several agents."""

    name: str
    settings: Settings  # of a run of its own, as if there were no others
    spec: EnvironmentSpec  # of its bodies
    bodies: Mapping[int, tuple[int, ...]]  # those that it plays, by the number of the level

    def own_level(self, level: int) -> int:
        """The number of a level among those that it plays."""
        return list(self.bodies).index(level)


def agents_of(settings: Settings) -> list[OneOf]:
    """The agents of ``--agents``, in order."""
    level = settings.level
    seating.check(level)
    looks = build.looks(settings)
    counts = [max(1, len(environments.body_names(name, **looks))) for name in level.levels]
    seats = seating.seats(level, counts)
    bodies: list[dict[int, tuple[int, ...]]] = [{} for _ in level.agent_names]
    for seat in seats:
        mine = bodies[seat.agent]
        mine[seat.level] = (*mine.get(seat.level, ()), seat.body)
    specs: list[list[EnvironmentSpec]] = [[] for _ in level.agent_names]
    for index, name in enumerate(level.levels):
        there = [agent for agent, mine in enumerate(bodies) if index in mine]
        shares = [bodies[agent][index] for agent in there]
        found = environments.shared_specs(name, shares, **looks)
        for agent, spec in zip(there, found, strict=True):
            specs[agent].append(spec)
    for first, *others in specs:
        for other in others:
            check_alike(first, other)
    return [
        OneOf(name, _own(settings, number, specs[number][0], bodies[number], counts),
              specs[number][0], bodies[number])
        for number, name in enumerate(level.agent_names)
    ]  # fmt: skip


def agent_of(settings: Settings) -> OneOf:
    """The one that ``--agent`` names."""
    names = settings.level.agent_names
    return agents_of(settings)[names.index(settings.program.agent)]


def _own(
    settings: Settings,
    number: int,
    spec: EnvironmentSpec,
    bodies: Mapping[int, tuple[int, ...]],
    counts: Sequence[int],
) -> Settings:
    """``counts`` are the bodies of each level's game."""
    level, actors, envs = settings.level, settings.actors.num_actors, settings.actors.envs_per_actor
    # Of the games of all, each agent has the rows of its own bodies.
    rows = [-(-envs // counts[index]) * len(mine) for index, mine in bodies.items()]
    name = level.agent_names[number]
    secure = settings.remote.transport == "secure"
    own = settings.replace(
        agents="",
        product="outer",
        bodies="",
        agent=name,
        level_name=",".join(level.levels[index] for index in bodies),
        logdir=str(several.folder_of(settings.run_folder, name)),
        envs_per_actor=min(envs, max(rows)),
        num_actors=max(1, sum(index % len(level.levels) in bodies for index in range(actors))),
        # Agents that begin with the same weights would be the same agent for a while.
        seed=(settings.program.seed + number) % 2**31,
        **({"credentials": settings.credentials_file} if secure else {}),
    )
    return build.complete(own, spec)


def environment_of(
    there: list[OneOf], settings: Settings, index: int, start: int = 0
) -> SharedEnvironment:
    """The environments of actor ``index``, with a part for each agent that plays ``there``."""
    level = index % len(settings.level.levels)
    if not settings.actors.envs_per_actor:
        # Where no number is given, each agent has as many bodies as it would have alone.
        alone = max(sizes.envs_per_actor(agent.settings) for agent in there)
        settings = settings.replace(envs_per_actor=len(there) * alone)
    shares = [agent.bodies[level] for agent in there]
    return build.shared_environment(settings, index, shares, start)
