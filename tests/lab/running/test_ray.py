"""Sessions on the nodes of a Ray cluster on this machine: bin/test --extras.

The last test kills one of its nodes.
"""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from trainer.storage.records import read_metrics

pytestmark = pytest.mark.extras
pytest.importorskip("ray", reason="bin/test --extras installs it")

TRIALS = 16


class Cluster:
    """Two nodes with a core each; ``lose`` is a power cut of the second."""

    def __init__(self, folder: Path):
        program = Path(__file__).with_name("ray_cluster.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout
        self.address, _, second = self._process.stdout.readline().split()
        self._second = psutil.Process(int(second))
        self._folder = folder

    def runs_on_second(self) -> set[str]:
        """The sessions there."""
        words = []
        for one in self._second.children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has just ended
                words.append(one.cmdline())
        return {Path(line[2]).name for line in words if line[1:2] and "keeper.py" in line[1]}

    def lose(self) -> None:
        for one in [self._second, *self._second.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                one.kill()

    def listening(self) -> set[str]:
        """The addresses at which it listens."""
        every = [one for one in psutil.process_iter() if self._is_mine(one)]
        return {
            connection.laddr.ip
            for one in every
            for connection in one.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }

    def _is_mine(self, process: psutil.Process) -> bool:
        return self._process.pid in [one.pid for one in process.parents()]

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("r"))
    yield made
    made.close()


def spec(frames: int, trials: int = TRIALS) -> dict:
    return {
        "level": "CartPole-v1",
        "algorithm": "ppo",
        "settings": {"total_environment_frames": frames, "env_threads": 1, "report_every_s": 0.5},
        "meta": {"trials": trials, "search": "random", "finalists": 0, "objective": "best_return",
                 "resources": {"memory_gb": 1}},
        "search": {"settings": {"learning_rate__loguniform": [0.0001, 0.005]}},
    }  # fmt: skip


def wait_for(condition, process, seconds=900.0):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "never happened"
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return found


def ended(lab) -> int:
    return sum(one["state"] == "done" for one in lab.trials())


def test_a_lab_that_is_killed_ends_its_sessions_and_goes_on(lab, cluster):
    path = lab.write(spec(100_000, trials=4))  # stand-ins that take two seconds
    arguments = ("--data=data", "--engine=ray", f"--ray_address={cluster.address}")
    process = lab.start("search", path, *arguments)
    wait_for(lambda: len(list(lab.data.glob("*/sessions/*/metrics.jsonl"))) == 2, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    said = lab.run("search", path, *arguments)
    assert "Going on with data/" in said and ended(lab) == 4
    starts = lab.starts()
    assert max(map(len, starts.values())) == 2 and len(starts) == 4
    for name in starts:  # each went on where it was
        rows = read_metrics(lab.only / "sessions" / name)
        assert [row["environment_frames"] for row in rows] == list(range(10_000, 100_001, 10_000))


def test_what_no_node_has_is_refused_and_stop_ends_sessions_on_nodes(lab, cluster):
    arguments = ("--data=data", "--engine=ray", f"--ray_address={cluster.address}")
    content = spec(100_000)
    content["meta"]["resources"] = {"cores": 2, "memory_gb": 1}
    refused = lab.run("search", lab.write(content), *arguments, code=2)
    assert "found 2 core(s) with 1 GB; expected what a node" in refused
    assert not lab.data.exists()
    content = spec(100_000, trials=1)
    content["settings"]["reporters"] = "hangs"
    process = lab.start("search", lab.write(content), *arguments)
    wait_for(lambda: list(lab.data.glob("*/sessions/t0_s0/session.json")), process)
    assert "is stopped" in lab.run("stop", "--data=data")
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    assert lab.trials()[0]["state"] == "open"


def young(lab, names: set[str]) -> set[str]:
    """The sessions that have reported, and are far from their end."""
    rows = {name: read_metrics(lab.only / "sessions" / name) for name in names}
    return {name for name in rows if rows[name] and rows[name][-1]["environment_frames"] < 3_000}


@pytest.mark.timeout(2400)
def test_a_node_dies_in_the_middle_of_a_search_and_everything_finishes(lab, cluster):
    """Real trainings; what ran on the dead node is started again, and nothing else is."""
    path = lab.write(spec(6_000))
    arguments = ("--data=data", "--engine=ray", f"--ray_address={cluster.address}")
    process = lab.start("search", path, *arguments, real=True)
    wait_for(lambda: list(lab.data.glob("*/spec.json")) and ended(lab) >= 3, process)
    assert all(one.removeprefix("::ffff:") == "127.0.0.1" for one in cluster.listening())
    lost = wait_for(lambda: young(lab, cluster.runs_on_second()), process)
    cluster.lose()
    said, _ = process.communicate(timeout=1500)
    assert process.returncode == 0, said
    assert f"{TRIALS} trial(s), 2 session(s) side by side" in said
    assert ended(lab) == TRIALS
    for number in range(TRIALS):
        frames = [
            row["environment_frames"]
            for row in read_metrics(lab.only / "sessions" / f"t{number}_s0")
        ]
        assert frames == sorted(set(frames)) and frames[-1] >= 6_000
        assert said.count(f"t{number} s0 started") == 1 + (f"t{number}_s0" in lost)
