"""``--agents``, ``--product`` and ``--bodies``: which agent plays which body of which level.

Pure functions; agents, levels and the bodies of a level's game are counted from 0.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from trainer.acting.settings import LevelSettings
from user_error import UserError, closest

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}")


class Seat(NamedTuple):
    """A body of a level's game, and the agent that plays it."""

    agent: int
    level: int
    body: int


def is_name(text: str) -> bool:
    """Whether an agent can have this name, which is also that of its folder."""
    return bool(_NAME.fullmatch(text))


def check(level: LevelSettings) -> None:
    """Refuses what is wrong whatever the games are."""
    if not level.agents:
        if level.bodies or level.product != "outer":
            flag = f"--bodies={level.bodies}" if level.bodies else f"--product={level.product}"
            raise UserError(
                f"{flag}: that is for several agents; name them, as in --agents=left,right, or "
                "leave it out."
            )
        return
    for name in level.agent_names:
        if not is_name(name):
            raise UserError(
                f"--agents={level.agents}: {name!r} is not a name of an agent; expected letters, "
                "digits, '_', '-' and '.', with commas between the names."
            )
        if level.agent_names.count(name) > 1:
            raise UserError(f"--agents={level.agents}: {name} is given twice.")
    if level.product == "custom":
        _listed(level)
        return
    agents, levels = len(level.agent_names), len(level.levels)
    if level.product == "inner" and agents != levels:
        raise UserError(
            f"--product=inner: {_count(agents, 'agent')} and {_count(levels, 'level')}; expected "
            "as many agents as levels, which are paired in order."
        )
    _numbers(level)


def check_agent(level: LevelSettings, agent: str) -> None:
    """Refuses an ``--agent`` that is not one of ``--agents``."""
    if agent not in level.agent_names:
        hint = closest(agent, level.agent_names)
        raise UserError(f"--agent={agent}: --agents={level.agents} does not name it. {hint}")


def seats(level: LevelSettings, bodies: Sequence[int]) -> list[Seat]:
    """Who plays each of the ``bodies`` of each level's game, in order of agent, level and body."""
    check(level)
    found = _listed(level) if level.product == "custom" else _by_number(level, bodies)
    for index, (name, count) in enumerate(zip(level.levels, bodies, strict=True)):
        taken = [seat.body for seat in found if seat.level == index]
        if len(taken) != count:
            raise UserError(
                f"--bodies={level.bodies}: {name} has {_bodies(count)}, of which 0 to "
                f"{max(taken)} are listed."
                if level.product == "custom"
                else f"--bodies={level.bodies}: that makes {_bodies(len(taken))} of all agents in "
                f"{name}, which has {count}."
            )
    return sorted(found)


def _by_number(level: LevelSettings, bodies: Sequence[int]) -> list[Seat]:
    """Seats of products outer and inner: the first agent has the first bodies of a game."""
    given, agents = _numbers(level), len(level.agent_names)
    found = []
    for index, count in enumerate(bodies):
        there = range(agents) if level.product == "outer" else [index]
        if not given and count % len(there):
            raise UserError(
                f"--agents={level.agents}: {level.levels[index]} has {_bodies(count)}, which "
                f"cannot be divided evenly among {len(there)} agents. Say who plays which with "
                "--product=custom --bodies=[[agent,level,body],...]."
            )
        each = given[index] if given else count // len(there)
        found += [
            Seat(agent, index, place * each + body)
            for place, agent in enumerate(there)
            for body in range(each)
        ]
    return found


def _numbers(level: LevelSettings) -> list[int]:
    """The bodies of an agent in each level, as ``--bodies`` says; empty if it says nothing."""
    if not level.bodies:
        return []
    words = [word.strip() for word in level.bodies.strip("[]").split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words) or len(words) not in (
        1,
        len(level.levels),
    ):
        raise UserError(
            f"--bodies={level.bodies}: expected a number, or one for each level with commas "
            f"between ({_count(len(level.levels), 'level')}); --product=custom takes a list of "
            "[agent,level,body]."
        )
    numbers = [int(word) for word in words]
    return numbers * len(level.levels) if len(numbers) == 1 else numbers


def _listed(level: LevelSettings) -> list[Seat]:
    """The seats that product custom lists, without gaps."""
    where = f"--bodies={level.bodies}"
    try:
        found = [Seat(*(_index(number) for number in one)) for one in json.loads(level.bodies)]
    except (TypeError, ValueError):
        raise UserError(
            f"{where}: --product=custom expects a list of [agent,level,body], each counted from "
            "0, such as [[0,0,0],[1,0,1]]."
        ) from None
    for what, names, numbers in (
        ("agent", level.agent_names, {seat.agent for seat in found}),
        ("level", level.levels, {seat.level for seat in found}),
    ):
        beyond = max(numbers, default=0)
        if beyond >= len(names):
            raise UserError(
                f"{where}: there is no {what} {beyond}; there are {len(names)}, counted from 0."
            )
        missing = [name for index, name in enumerate(names) if index not in numbers]
        if missing:
            raise UserError(f"{where}: {what} {missing[0]} has no body.")
    for index, name in enumerate(level.levels):
        taken = sorted(seat.body for seat in found if seat.level == index)
        for body, given in enumerate(taken):
            if given != body:
                problem = f"body {given} has two agents" if given < body else f"no body {body}"
                raise UserError(f"{where}: {problem} in level {name}; expected each body once.")
    return found


def _index(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError
    return number


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _bodies(count: int) -> str:
    return f"{count} bod{'y' if count == 1 else 'ies'}"
