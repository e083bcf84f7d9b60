"""Who sits where: agents, levels and bodies by ``--agents``, ``--product`` and ``--bodies``."""

import pytest

from trainer.acting.settings import LevelSettings
from trainer.settings import addresses, config
from trainer.settings.seating import Seat, check, check_agent, seats
from user_error import UserError


def level(
    agents: str, levels: str = "A", product: str = "outer", bodies: str = ""
) -> LevelSettings:
    return LevelSettings(level_name=levels, agents=agents, product=product, bodies=bodies)


@pytest.mark.parametrize(
    ("chosen", "games", "expected"),
    [
        (level("x,y"), [2], [(0, 0, 0), (1, 0, 1)]),
        (level("x,y"), [4], [(0, 0, 0), (0, 0, 1), (1, 0, 2), (1, 0, 3)]),
        (level("x,y", bodies="2"), [4], [(0, 0, 0), (0, 0, 1), (1, 0, 2), (1, 0, 3)]),
        (level("x"), [3], [(0, 0, 0), (0, 0, 1), (0, 0, 2)]),
        (
            level("x,y", "A,B", bodies="1,2"),
            [2, 4],
            [(0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2), (1, 1, 3)],
        ),
        (level("x,y", "A,B", "inner"), [1, 1], [(0, 0, 0), (1, 1, 0)]),
        (level("x,y", "A,B", "inner"), [2, 1], [(0, 0, 0), (0, 0, 1), (1, 1, 0)]),
        (level("x,y", "A,B", "inner", "2,1"), [2, 1], [(0, 0, 0), (0, 0, 1), (1, 1, 0)]),
        (
            level("x,y", product="custom", bodies="[[0,0,2],[0,0,0],[1,0,1]]"),
            [3],
            [(0, 0, 0), (0, 0, 2), (1, 0, 1)],
        ),
        (
            level("x,y", "A,B", "custom", "[[0,0,0],[1,0,1],[1,1,0]]"),
            [2, 1],
            [(0, 0, 0), (1, 0, 1), (1, 1, 0)],
        ),
    ],
)
def test_who_sits_where(chosen, games, expected):
    assert seats(chosen, games) == [Seat(*seat) for seat in expected]


@pytest.mark.parametrize(
    ("chosen", "games", "text"),
    [
        (level("x,y"), [3], "A has 3 bodies, which cannot be divided evenly among 2 agents"),
        (level("x,y"), [1], "A has 1 body, which cannot be divided"),
        (level("x,y", bodies="2"), [2], "makes 4 bodies of all agents in A, which has 2"),
        (level("x,y", "A,B", "inner", "1"), [2, 1], "makes 1 body of all agents in A, which has 2"),
        (level("x,y", product="custom", bodies="[[0,0,0],[1,0,1]]"), [3], "of which 0 to 1 are"),
    ],
)
def test_seats_that_do_not_fit_the_game_are_refused_in_one_line(chosen, games, text):
    with pytest.raises(UserError) as error:
        seats(chosen, games)
    assert text in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        (level("", bodies="2"), "--bodies=2: that is for several agents; name them"),
        (level("", product="inner"), "--product=inner: that is for several agents"),
        (level("x,x"), "x is given twice"),
        (level("x,,y"), "'' is not a name of an agent"),
        (level("x,../y"), "'../y' is not a name of an agent"),
        (level("x,y", "A,B,C", "inner"), "2 agents and 3 levels"),
        (level("x,y", bodies="one"), "expected a number, or one for each level"),
        (level("x,y", "A,B", bodies="1,2,3"), "expected a number, or one for each level"),
        (level("x,y", product="custom"), "a list of [agent,level,body]"),
        (level("x,y", product="custom", bodies="[[0,0],[1,0,1]]"), "a list of [agent,level,body]"),
        (level("x,y", product="custom", bodies="[[0,0,-1]]"), "a list of [agent,level,body]"),
        (level("x,y", product="custom", bodies="[[0,0,0],[2,0,1]]"), "there is no agent 2"),
        (level("x,y", product="custom", bodies="[[0,0,0],[1,1,0]]"), "there is no level 1"),
        (level("x,y", product="custom", bodies="[[0,0,0]]"), "agent y has no body"),
        (level("x,y", "A,B", "custom", "[[0,0,0],[1,0,1]]"), "level B has no body"),
        (level("x,y", product="custom", bodies="[[0,0,0],[1,0,0]]"), "body 0 has two agents"),
        (level("x,y", product="custom", bodies="[[0,0,0],[1,0,2]]"), "no body 1 in level A"),
    ],
)
def test_what_no_game_can_have_is_refused_in_one_line(chosen, text):
    with pytest.raises(UserError) as error:
        check(chosen)
    assert text in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("--agent=left", "name them all in --agents"),
        ("--agents=left,right --job_name=learner", "--agent=: --agents=left,right"),
        ("--agents=left,right --job_name=learner --agent=rigth", "Did you mean right?"),
        ("--agents=left,right --job_name=actor", "address of each agent's learner once, such as"),
        ("--agents=left,right --evaluate_every_s=5", "games beside a training are for one agent"),
        ("--agents=left,right --algorithm=simple", "trains one agent"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags, text):
    with pytest.raises(UserError, match="^--") as error:
        config.parse(flags.split())
    assert text in str(error.value)


def test_an_actor_has_an_address_for_each_agent():
    given = "right=[::1]:8002,left=localhost:8001"
    assert addresses.of_agents(given, ["left", "right"]) == {
        "left": "localhost:8001", "right": "[::1]:8002",
    }  # fmt: skip
    for wrong in ("localhost:8001", "left=localhost:8001", given + ",left=a:1", "left=a,right=b:1"):
        with pytest.raises(UserError, match="--learner_host"):
            addresses.of_agents(wrong, ["left", "right"])
    check_agent(level("left,right"), "left")
