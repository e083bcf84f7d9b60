"""The trainer beside peers: what drivers say is read, who fails is told, and who is alone runs."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.tools.common import Spread, spread
from benchmarks.whole.peers import __main__ as program
from benchmarks.whole.peers import known, running, tuning
from benchmarks.whole.peers.known import PEERS, chosen
from benchmarks.whole.peers.running import Failed, Reached, Work, lines
from tests.benchmarks.whole.stopping import stopped_at
from tests.trainer.disks import files_limited_to
from trainer.machine.launching import PROJECT
from user_error import UserError

pytestmark = pytest.mark.xdist_group("benchmarks")

WORK = Work("pong", "SimpleConvNetAgent", 20, 32, 32, 1)._asdict()

RECORDED = """[2026-01-01 10:00:00,000][00001] Starting all processes...
PROGRESS {"steps": 0, "time": 100.0}
noise in front PROGRESS {"steps": 640, "time": 102.5}
PROGRESS {"steps": 1280, "ti
[2026-01-01 10:00:03,000][00001] Fps is (10 sec: 948.0)
PROGRESS {"steps": 1920, "time": 103.0}
"""


class Driven(known.Peer):
    """A peer whose driver is a program of the test."""

    program = Path()

    @property
    def driver(self):
        return self.program


def driven(tmp_path, text):
    peer = Driven("stand_in", "Stand-in")
    Driven.program = tmp_path / "driver.py"
    Driven.program.write_text(textwrap.dedent(text))
    return peer


def run(peer, tmp_path, seconds=0.5):
    return running.run(peer, Path(sys.executable), WORK, 0.0, seconds, tmp_path / "log")


def test_progress_is_read_among_other_lines():
    told = [(point["time"], point["steps"]) for point in lines(RECORDED)]
    assert told == [(100.0, 0.0), (102.5, 640.0), (103.0, 1920.0)]


def test_a_driver_is_measured_and_ended_with_all_that_it_started(tmp_path):
    peer = driven(
        tmp_path,
        """
        import json, os, subprocess, sys, time
        assert json.loads(sys.argv[1])["batch_size"] == 32
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        print("child", child.pid, flush=True)
        steps = 0
        while True:
            print("PROGRESS", json.dumps({"steps": steps, "time": time.time()}), flush=True)
            time.sleep(0.05)
            steps += 100
        """,
    )
    reached = run(peer, tmp_path)
    assert 0 < reached.steps_per_second <= 100 / 0.05
    assert reached.first_update_s > 0
    child = int((tmp_path / "log").read_text().split()[1])
    until = time.monotonic() + 30
    while psutil.pid_exists(child) and time.monotonic() < until:
        time.sleep(0.1)
    assert not psutil.pid_exists(child)


def test_a_driver_ends_with_a_benchmark_that_was_killed(tmp_path):
    driven(tmp_path, "import time; print('here', flush=True); time.sleep(1000)")
    code = (
        "import pathlib, sys; from tests.benchmarks.whole import test_peers as tests;"
        "folder = pathlib.Path(sys.argv[1]);"
        "tests.Driven.program = folder / 'driver.py';"
        "tests.run(tests.Driven('stand_in', 'Stand-in'), folder)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=PROJECT) as benchmark:
        try:
            log, until = tmp_path / "log", time.monotonic() + 60
            while not log.exists() or "here" not in log.read_text():
                assert time.monotonic() < until
                time.sleep(0.05)
            [driver] = psutil.Process(benchmark.pid).children()
        finally:
            benchmark.kill()
    assert psutil.wait_procs([driver], timeout=60)[1] == []


def test_a_driver_that_ends_is_told_with_its_last_words(tmp_path):
    peer = driven(tmp_path, "print('no ROMs were found'); raise SystemExit(3)")
    with pytest.raises(Failed, match="exit code 3: no ROMs were found"):
        run(peer, tmp_path)


def test_a_driver_that_stands_still_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "STARTS_WITHIN_S", 1)
    peer = driven(tmp_path, "import time; print('waiting', flush=True); time.sleep(1000)")
    with pytest.raises(Failed, match="no progress in time"):
        run(peer, tmp_path)


def test_peers_are_chosen_by_name():
    assert chosen("none") == []
    assert chosen("rllib,sample_factory") == [PEERS[1], PEERS[0]]
    with pytest.raises(UserError, match="--peers=rlib is not known"):
        chosen("rlib")


def test_every_peer_has_a_search_a_driver_and_pinned_packages():
    for peer in PEERS:
        assert peer.ways
        assert peer.driver.exists()
        lines = peer.packages.read_text().splitlines()
        pins = [line for line in lines if line and not line.startswith("#")]
        assert pins and all("==" in line for line in pins)


def test_who_fails_is_told_and_the_best_of_the_others_counts(tmp_path, capsys):
    own = program.Own(repeats=2, results=str(tmp_path))
    rates = {"ours": iter([300.0, 330.0]), "slow": iter([50.0, 60.0]), "fast": iter([100.0, 110.0])}

    def runs(name):
        return lambda network: Reached(1.0, next(rates[name]))

    def breaks(network):
        raise Failed("it hangs")

    contenders = [
        program.Contender(program.OURS, "float32", runs("ours")),
        program.Contender("slow", "float32", runs("slow")),
        program.Contender("fast", "float32", runs("fast")),
        program.Contender("broken", "float32", breaks),
        program.Contender("untuned", "float32", runs("ours"), breaks),
    ]
    report = program.Report("peers", program.COLUMNS, own, "float32", "work")
    found: dict[tuple[str, str], Spread] = {}
    absent: list[str] = []
    missing = {"absent": "not installed"}
    program.compare(report, own, "Net", contenders, missing, found, absent)
    assert found == {("Net", "float32"): spread([3.0, 3.0])}
    assert absent == ["absent", "untuned", "broken"]
    program.print_ratios(found, {"Net": absent})
    assert "best peer, without absent, untuned, broken, (" in capsys.readouterr().out
    report.finish("agent steps/s")
    rows = json.loads((tmp_path / "peers.json").read_text())["rows"]
    told = {row["trainer"]: row["precision"] for row in rows}
    assert told["broken"] == told["untuned"] == "failed: it hangs"
    assert told["absent"] == "failed: not installed"


def test_ratios_stand_beside_those_that_the_guide_upholds(capsys):
    program.print_ratios(dict.fromkeys(program.UPHELD, spread([2.0])), {})
    printed = capsys.readouterr().out.split("\n\n")
    for upheld, line in zip(program.UPHELD.values(), printed, strict=True):
        assert f"docs/performance.md: {upheld}" in line
        for page in ("README.md", "docs/performance.md"):
            assert upheld in (PROJECT / page).read_text()


def test_a_ratio_names_who_is_missing_also_where_it_is_stopped(tmp_path, monkeypatch, capsys):
    """Of other work than the guide's, none of its figures stands beside it."""
    contenders = [
        program.Contender(program.OURS, "auto", stopped_at(2, Reached(1.0, 200.0))),
        program.Contender("slow", "float32", lambda network: Reached(1.0, 50.0)),
    ]

    def theirs(own, peer):
        if peer.key == "rllib":
            return contenders[1]
        raise UserError("it could not be installed")

    monkeypatch.setattr(program, "ours", lambda *_: contenders[:1])
    monkeypatch.setattr(program, "theirs", theirs)
    flags = ["--agent_name=SimpleConvNetAgent", f"--results={tmp_path}"]
    for size, beside in (32, "; docs/performance.md: "), (8, "\n"):
        contenders[0] = contenders[0]._replace(run=stopped_at(2, Reached(1.0, 200.0)))
        with pytest.raises(KeyboardInterrupt):
            program.measure([*flags, f"--batch_size={size}"])
        told = f"4.00 times the best peer, without {PEERS[0].name}, (4.00–4.00){beside}"
        assert told in capsys.readouterr().out


def test_a_peer_runs_with_the_fastest_of_its_ways_which_is_searched_once(tmp_path, monkeypatch):
    peer = driven(
        tmp_path,
        """
        import json, sys, time
        threads, steps = json.loads(sys.argv[1])["threads"], 0
        while True:
            print("PROGRESS", json.dumps({"steps": steps, "time": time.time()}), flush=True)
            time.sleep(0.05)
            steps += 1 + 1000 * (threads == 2)
        """,
    )._replace(ways={"threads": (1, 2, 4)})
    monkeypatch.setattr(program, "installed", lambda peer: Path(sys.executable))
    monkeypatch.setattr(tuning, "folder_for", lambda peer: tmp_path)
    own = program.Own(repeats=1, results=str(tmp_path), warm_up_s=0.0, seconds=0.3, tune_s=0.5)
    for _ in range(2):
        contender = program.theirs(own, peer)
        assert contender.tune("SimpleConvNetAgent") == "threads=2"
        assert contender.run("SimpleConvNetAgent").steps_per_second > 1000
        monkeypatch.setattr(tuning, "_searched", None)  # its result is kept
    monkeypatch.setattr(tuning, "_searched", lambda *_: {"threads": 4, "workers": 1})
    more = peer._replace(ways={**peer.ways, "workers": (1, 2)})  # … for the same ways only
    assert program.theirs(own, more).tune("SimpleConvNetAgent") == "threads=4 workers=1"


def test_a_search_whose_result_cannot_be_kept_was_not_in_vain(tmp_path, monkeypatch, capsys):
    peer = PEERS[0]._replace(ways={"threads": (1, 2)})
    monkeypatch.setattr(tuning, "folder_for", lambda peer: tmp_path)
    monkeypatch.setattr(tuning, "_searched", lambda *_: {"threads": 2})
    with files_limited_to(10):
        found = tuning.fastest(peer, Path(sys.executable), {}, 0.3, tmp_path / "log")
    assert found == {"threads": 2}
    [line] = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'fastest.json'} cannot be written" in line


def test_a_search_in_which_nobody_came_to_play_keeps_nothing(tmp_path, monkeypatch, capsys):
    peer = driven(
        tmp_path,
        """
        import json, time
        while True:
            print("PROGRESS", json.dumps({"steps": 0, "time": time.time()}), flush=True)
            time.sleep(0.05)
        """,
    )._replace(ways={"threads": (1, 2)})
    monkeypatch.setattr(tuning, "folder_for", lambda peer: tmp_path)
    with pytest.raises(Failed, match="no way made two updates within --tune_s=0.3"):
        tuning.fastest(peer, Path(sys.executable), {}, 0.3, tmp_path / "log")
    told = capsys.readouterr().err.splitlines()
    assert [line.rpartition(": ")[2] for line in told] == ["not two updates in 0.3 s"] * 2
    assert not (tmp_path / "fastest.json").exists()


def test_turns_that_have_ended_are_written_when_it_is_stopped(tmp_path, monkeypatch):
    run = stopped_at(5, Reached(1.0, 100.0))
    monkeypatch.setattr(program, "ours", lambda *_: [program.Contender("ours", "float32", run)])
    flags = [
        "--peers=none",
        "--agent_name=SimpleConvNetAgent,ResNetAgent",
        "--repeats=3",
        f"--results={tmp_path}",
    ]
    with pytest.raises(KeyboardInterrupt):
        program.measure(flags)
    rows = json.loads((tmp_path / "peers.json").read_text())["rows"]
    assert [len(row["agent steps/s"]["values"]) for row in rows] == [3, 1]


@pytest.mark.timeout(600)
def test_this_trainer_alone_needs_no_peer(tmp_path):
    program.measure(
        ["--peers=none", "--agent_name=VectorAgent", "--precision=float32", "--repeats=1"]
        + ["--level_name=CartPole-v1", "--envs_per_actor=2", "--batch_size=2", "--warm_up_s=0"]
        + ["--seconds=1", f"--results={tmp_path}"]
    )
    [row] = json.loads((tmp_path / "peers.json").read_text())["rows"]
    assert row["trainer"] == program.OURS and row["agent steps/s"]["median"] > 0
    assert row["ours / this"] is None


def test_a_peers_python_sees_nothing_of_the_trainers(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert "PYTHONPATH" not in running.environment()
    assert running.environment()["PATH"] == os.environ["PATH"]


def test_ending_a_process_that_has_ended_is_fine():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    running.end(process)


@pytest.mark.parametrize(
    ("flag", "word"),
    [
        ("--agent_name=ResNetAgent,Typo", "Typo"),
        ("--precision=auto,half", "half"),
        ("--precision=auto,auto", "auto is given twice"),
        ("--peers=rllib,rllib", "rllib is given twice"),
        ("--agent_name=ResNetLSTMAgent", "=ResNetLSTMAgent: the peers have SimpleConvNetAgent and"),
        ("--level_name=CartPole-v1", "=CartPole-v1: the peers' drivers know only Atari games"),
        ("--level_name=PongNoFrameskip-v44", "PongNoFrameskip-v44"),
    ],
)
def test_mistakes_are_refused_before_anything_is_installed(tmp_path, monkeypatch, flag, word):
    monkeypatch.setattr(program, "installed", None)
    with pytest.raises(UserError, match=word):
        program.measure([flag, f"--results={tmp_path}"])


def test_failures_alone_replace_no_earlier_figures(tmp_path, monkeypatch):
    def breaks(network):
        raise Failed("it hangs")

    broken = program.Contender("broken", "float32", breaks)
    monkeypatch.setattr(program, "ours", lambda *_: [broken])
    (tmp_path / "peers.json").write_text("earlier")
    program.measure(["--peers=none", "--agent_name=SimpleConvNetAgent", f"--results={tmp_path}"])
    assert (tmp_path / "peers.json").read_text() == "earlier"


def test_a_rate_is_that_of_whole_updates(tmp_path):
    peer = driven(
        tmp_path,
        """
        import json, time
        begun = time.time()
        while True:
            steps = 600 * int((time.time() - begun) / 0.6)
            print("PROGRESS", json.dumps({"steps": steps, "time": time.time()}), flush=True)
            time.sleep(0.05)
        """,
    )
    # In 0.9 s one or two updates end: by the clock, it would be 667 or 1,333 steps a second.
    assert run(peer, tmp_path, seconds=0.9).steps_per_second == pytest.approx(1000, rel=0.25)
