"""Several agents in one plan: the learners of each, and actors linked to all."""

import dataclasses

import pytest

from cluster.inventory import hosts_csv
from tests.cluster.conftest import ROOT
from tests.cluster.plan.plans import flags_of, plan, row
from user_error import UserError

AGENTS = [
    row("learner", "localhost", 8001, agent="left"),
    row("learner", "localhost", 8002, agent="right"),
    row("learner", "localhost", 8003, agent="right"),
    row("actor", "localhost", 9001, count=2),
]


def test_learners_of_an_agent_are_one_team_and_actors_are_linked_to_one_of_each():
    made = plan(AGENTS, "--logdir=logs/run")
    learning = {one.name: one for one in made.processes if one.job == "learner"}
    assert list(learning) == ["learner-0", "learners-right"]
    assert learning["learners-right"].parts == ("learner-1", "learner-2")
    assert learning["learners-right"].argv.count("--agent=right") == 2
    assert flags_of(learning["learner-0"].argv)["agent"] == "left"
    assert all("--agents=left,right" in one.argv for one in learning.values())
    assert [actor.linked for actor in made.actors] == [(0, 1), (0, 2)]
    actors = [flags_of(one.argv) for one in made.processes if one.job == "actor"]
    assert [one["learner_host"] for one in actors] == [
        "left=localhost:8001,right=localhost:8002",
        "left=localhost:8001,right=localhost:8003",
    ]
    assert {one["logdir"] for one in actors} == {"logs/run"}


def test_an_agents_learners_on_several_hosts_have_files_of_their_own():
    spread = [
        row("learner", f"10.0.0.{number}", 8000 + number, agent="left" if number < 3 else "right")
        for number in range(1, 5)
    ]
    files = [path.rpartition("/")[2] for path, _ in plan(spread).spread.files]
    assert files == [
        "mpirun_hosts_left", "ssh_config_left", "mpirun_hosts_right", "ssh_config_right",
    ]  # fmt: skip
    with pytest.raises(UserError, match="need logins by key"):
        plan([dataclasses.replace(one, ssh_password="x") for one in spread])


def test_agents_of_the_flag_and_of_the_csv_must_be_the_same():
    assert "--agents=right,left" in plan(AGENTS, "--agents=right,left").processes[0].argv
    nobody = [dataclasses.replace(one, agent="") for one in AGENTS]
    for rows, flag, text in (
        (AGENTS, "--agents=left,middle", "names left, right; expected the same agents"),
        ([*AGENTS, row("learner", "localhost", 8009)], "", "x:8009: column agent: is empty"),
        (nobody, "--agents=a,b", "give it a column"),
        (AGENTS, "--product=inner", "2 agents and 1 level"),
    ):
        with pytest.raises(UserError) as error:
            plan(rows, *([flag] if flag else []))
        assert text in str(error.value) and "\n" not in str(error.value)


def test_agents_are_of_learners_only():
    text = b"job,ip,tf_port,agent\nlearner,localhost,8001,a b\nactor,localhost,9001,left\n"
    with pytest.raises(UserError) as error:
        hosts_csv.parse(text, "x")
    assert "x:2: column agent: is not a name" in str(error.value)
    assert "x:3: column agent: a name is given for an actor" in str(error.value)
    # Where fields were left out, what stands there may be the password.
    assert "a b" not in str(error.value) and "left" not in str(error.value)


def test_the_example_of_two_agents_can_be_planned():
    made = plan(hosts_csv.read(ROOT / "sandbox" / "two_agents_example.csv"))
    assert [one.row.agent for one in made.learners] == ["left", "right"]
