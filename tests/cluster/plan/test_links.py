"""Which actor plays for which learner, and what a plan gives each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.inventory import hosts_csv
from cluster.inventory.columns import host_of
from cluster.inventory.hosts_csv import Row
from cluster.model import LOCAL
from tests.cluster.plan.plans import flags_of, plan, row
from user_error import UserError


def test_actors_are_linked_round_robin_in_file_order():
    made = plan(
        [row("actor", "localhost", 9001), row("learner", "localhost", 8001),
         row("learner", "localhost", 8002), row("actor", "localhost", 9002, count=2)],
    )  # fmt: skip
    assert [actor.learner for actor in made.actors] == [0, 1, 0]
    actors = [process for process in made.processes if process.job == "actor"]
    hosts = [flags_of(actor.argv)["learner_host"] for actor in actors]
    assert hosts == ["localhost:8001", "localhost:8002", "localhost:8001"]


def test_more_levels_than_actors_are_refused_and_the_level_left_out_is_named():
    rows = [row("learner", "localhost", 8001), row("actor", "localhost", 9001, count=2)]
    levels = "PongNoFrameskip-v4,BreakoutNoFrameskip-v4"
    assert len(plan(rows, f"--level_name={levels}").actors) == 2
    with pytest.raises(UserError) as error:
        plan(rows, f"--level_name={levels},QbertNoFrameskip-v4")
    assert "names 3 levels, but x has 2 actors" in str(error.value)
    assert "QbertNoFrameskip-v4 would never be played" in str(error.value)


def test_actors_that_keep_their_numbers_must_play_every_level():
    rows = [row("learner", "localhost", 8001), row("actor", "localhost", 9001, count=2)]
    flag = "--level_name=PongNoFrameskip-v4,BreakoutNoFrameskip-v4"
    kept = {(LOCAL, 9001): 0, (LOCAL, 9002): 2}
    with pytest.raises(UserError, match="BreakoutNoFrameskip-v4 would never be played"):
        plan(rows, flag, numbers=kept)


def test_actors_in_step_fill_a_batch_together_unless_a_row_says_otherwise():
    rows = [
        row("learner", "10.0.0.1", 8001),
        row("actor", "10.0.0.2", 9001, count=3),
        row("actor", "10.0.0.3", 9001, envs=7),
    ]
    made = plan(rows, "--algorithm=ppo", "--batch_size=8")
    actors = [flags_of(one.argv) for one in made.processes if one.job == "actor"]
    assert [one["envs_per_actor"] for one in actors] == ["2", "2", "2", "7"]


def test_actors_know_how_many_share_their_host():
    made = plan(
        [row("learner", "10.0.0.9", 8001), row("actor", "10.0.0.9", 9001, count=2),
         row("actor", "10.0.0.5", 9001)],
    )  # fmt: skip
    shared = [flags_of(process.argv)["actors_on_host"] for process in made.processes
              if process.job == "actor"]  # fmt: skip
    assert shared == ["2", "2", "1"]


def test_a_row_decides_environments_and_environment_of_its_actor_and_hides_gpus():
    made = plan(
        [row("learner", "localhost", 8001),
         row("actor", "localhost", 9001, envs=5, env=(("A", "b c"),))],
        "--envs_per_actor=3",
    )  # fmt: skip
    actor = made.processes[1]
    assert [flag for flag in actor.argv if "envs_per_actor" in flag] == ["--envs_per_actor=5"]
    assert actor.env == (("A", "b c"), ("CUDA_VISIBLE_DEVICES", "-1"))


def test_secure_processes_are_given_the_file_of_their_job_and_others_none():
    rows = [row("learner", "localhost", 8001), row("actor", "localhost", 9001)]
    made = plan(rows, "--transport=secure", "--logdir=logs/x")
    learner, actor = (flags_of(process.argv) for process in made.processes[:2])
    assert learner["credentials"] == "logs/x/credentials/learner.pem"
    assert actor["credentials"] == "logs/x/credentials/actor.pem"
    assert learner["transport"] == actor["transport"] == "secure"
    assert "credentials" not in str([process.argv for process in plan(rows).processes])
    with pytest.raises(UserError, match="--credentials is decided for each process"):
        plan(rows, "--credentials=x")


def test_an_actor_elsewhere_cannot_be_linked_to_localhost():
    with pytest.raises(
        UserError, match="x:8001: column ip: learner-0 is at localhost, where actor-0"
    ):
        plan([row("learner", "localhost", 8001), row("actor", "10.0.0.1", 9001)])


def test_a_port_is_used_once_on_this_machine_by_whatever_address_it_is_called():
    with pytest.raises(UserError, match="x:2: column tf_port: port 1 is used by line 1: localhost"):
        plan([Row(1, "learner", "localhost", 1), Row(2, "actor", "10.0.0.9", 1)])


members = st.lists(
    st.tuples(st.sampled_from(["h1", "h2", "h3"]), st.integers(1, 4)), min_size=1, max_size=12
)


@given(members, members)
def test_each_actor_is_linked_once_loads_are_even_and_ports_never_clash(
    learner_hosts: list[tuple[str, int]], actor_hosts: list[tuple[str, int]]
):
    rows, port = [], 1000
    for job, hosts in (("learner", learner_hosts), ("actor", actor_hosts)):
        for host, count in hosts:
            rows.append(row(job, host, port, count=count if job == "actor" else 1))
            port += 10
    made = plan(rows)
    assert len(made.actors) == sum(count for _, count in actor_hosts)
    loads = [
        sum(actor.learner == index for actor in made.actors) for index in range(len(made.learners))
    ]
    assert max(loads) - min(loads) <= 1 and sum(loads) == len(made.actors)
    addresses = [member.address for member in (*made.learners, *made.actors)]
    assert len(set(addresses)) == len(addresses)
    names = [process.name for process in made.processes]
    assert len(set(names)) == len(names)
    named = [part for argv in made.processes for part in argv.argv if "actor_hosts" in part]
    linked = [address for flag in named for address in flag.split("=")[1].split(",") if address]
    assert sorted(linked) == sorted(actor.address for actor in made.actors)


any_rows = st.lists(
    st.tuples(
        st.sampled_from(["learner", "actor", "actor"]),
        st.sampled_from(["localhost", "127.0.0.1", "10.0.0.9", "h1"]),
        st.integers(1, 60),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=10,
)


@given(any_rows)
def test_ports_never_clash_in_what_the_reader_lets_through(given_rows: list):
    lines = ["job,ip,tf_port,count"]
    ports: list[tuple[str, int]] = []
    for job, ip, port, count in given_rows:
        many = count if job == "actor" else 1
        lines.append(f"{job},{ip},{port},{many}")
        host = "localhost" if ip == "127.0.0.1" else ip
        ports += [(host, one) for one in range(port, port + many)]
    sound = len(set(ports)) == len(ports) and any(job == "learner" for job, *_ in given_rows)
    try:
        read = hosts_csv.parse("\n".join(lines).encode(), "f")
    except UserError:
        assert not sound
        return
    assert sound
    members = [(host_of(one.ip), port) for one in read for port in one.ports]
    assert members == ports
