"""The real experiment.py on several hosts: two learners train together, and end together."""

import json

import pytest

from tests.cluster import networks
from tests.cluster.conftest import ROOT, Frontend, copy_code, wait_for
from tests.cluster.networks import HEADER, PASSWORD, Network
from tests.cluster.test_watching import rows_of

pytestmark = [
    pytest.mark.skipif(bool(networks.missing()), reason=networks.missing()),
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("network"),
]

QUICK = (
    "--level_name=dummy:16-50-wait",  # which leaves the cores to others
    "--env_threads=1",
    "--unroll_length=10",
    "--batch_size=4",
    "--total_environment_frames=100000000",
    "--report_every_s=1",
    "--checkpoint_every_s=2",
    "--peer_timeout_s=5",
    "--start_timeout_s=300",
)
WHOLE = (
    *("*.py", "agents", "algorithms", "vtrace", "environments", "transport", "trainer", "cluster"),
    *("bin", "requirements", "pyproject.toml"),
)


@pytest.fixture
def whole(remote: Frontend, network: Network) -> Frontend:
    """The whole project here, and a plan of two learners and two actors on four hosts."""
    for path in (path for name in WHOLE for path in ROOT.glob(name)):
        copy_code(path, remote.folder / path.name)
    first, second, third, fourth = network.hosts
    remote.csv(
        HEADER + ",remote_dir,envs",  # a folder beside that of other tests, with the stand-in
        network.row("learner", first, 8001) + ",whole,",
        network.row("learner", second, 8002, password=PASSWORD, key=False) + ",whole,",
        network.row("actor", third, 9001) + ",whole,4",
        network.row("actor", fourth, 9002) + ",whole,4",
    )
    remote.flags += QUICK
    return remote


def trains(frontend: Frontend) -> dict[str, list[str]]:
    """The rows of a status in which every process tells its speed."""
    rows = rows_of(frontend.run("status").stdout)
    speeds = [row[4] for name, row in rows.items() if name.startswith(("learner-", "actor-"))]
    return rows if len(speeds) == 4 and all(speeds) else {}


def test_two_learners_train_together_across_hosts_survive_a_cut_and_save_when_stopped(
    whole: Frontend, network: Network
):
    synced = whole.run("sync")
    assert synced.returncode == 0, synced.stdout + synced.stderr
    checked = whole.run("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    started = whole.run("start", "--restart_learners=20", "--restart_actors=3")
    assert started.returncode == 0, started.stdout + started.stderr

    rows = wait_for(lambda: trains(whole), 300, every=2)
    assert [rows[f"learner-{index}"][0] for index in (0, 1)] == [
        f"{host.user}@{host.ip}:{host.port}" for host in network.hosts[:2]
    ]
    said = whole.run("logs").stdout
    first, second = network.hosts[:2]
    for line in (
        f"learner-0    learner 0: waiting for actors at {first.ip}:8001.",
        f"learner-1    learner 1: waiting for actors at {second.ip}:8002.",
        f"actor-0      actor 0: Connected to the learner at {first.ip}:8001.",
        f"actor-1      actor 1: Connected to the learner at {second.ip}:8002.",
    ):
        assert line in whole.run("logs", f"--name={line.split()[0]}").stdout
    assert said.count("frames/s") > 4 and "differs" not in said

    # The host of a learner dies: the learners end, and go on when it is back.
    network.cut(second)
    told = rows_of(whole.run("status").stdout)
    assert told["learner-1"][1].startswith("unknown: does not answer")
    assert told["actor-0"][1] == told["actor-1"][1] == "running"
    state = whole.logdir / "cluster" / "learners.json"
    wait_for(lambda: json.loads(state.read_text())["restarts"] > 0, 180)
    assert not trains(whole)
    network.mend(second)
    rows = wait_for(lambda: trains(whole), 400, every=2)
    assert int(rows["learner-0"][3]) > 0
    assert "Resuming from" in whole.run("logs", "--name=learner-0").stdout

    stopped = whole.run("stop", "--stop_grace_s=60")
    assert stopped.stdout == "Stopped 2 learners and 2 actors.\n"
    assert [host.processes() for host in network.hosts] == [[], [], [], []]
    assert whole.processes() == []
    ends = whole.run("logs", "--name=learner-0").stdout.rpartition("Resuming from")[2]
    # Each host gets a signal of its own, and all learners end at the first: either may name it.
    assert "Ended: SIGTERM." in ends or "Ended: another learner was asked to stop." in ends
    run = network.hosts[0].home / "whole" / "logs" / "run"
    frames = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["environment_frames"]
    assert list((run / "checkpoints").glob(f"*{frames}*")), frames
    assert not (network.hosts[1].home / "whole" / "logs" / "run" / "checkpoints").exists()
