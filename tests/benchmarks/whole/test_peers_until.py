"""Time to a return beside a peer: how its runs are watched, searched and cut off."""

import ast
import json
import sys
import textwrap
from pathlib import Path

import pytest

from benchmarks.whole.peers import known, running, tuning, until
from benchmarks.whole.peers.running import Failed
from user_error import UserError

pytestmark = pytest.mark.xdist_group("benchmarks")

PONG = "PongNoFrameskip-v4"

# Its return grows with its steps; of its two ways one is four times as fast.
LEARNING = """
    import json, sys, time
    work = json.loads(sys.argv[1])
    steps, rate = 0, {1: 100, 2: 400}[work.get("threads", 1)]
    while True:
        mean = steps / 100 if steps > 200 else None
        progress = {"steps": steps, "time": time.time(), "return": mean}
        print("PROGRESS", json.dumps(progress), flush=True)
        time.sleep(0.05)
        steps += rate // 20
"""


class StandIn(known.Peer):
    """A peer whose driver is a program of the test."""

    program = Path()

    @property
    def driver(self):
        return self.program


def stand_in(tmp_path, text=LEARNING):
    StandIn.program = tmp_path / "driver.py"
    StandIn.program.write_text(textwrap.dedent(text))
    works = frozenset({("ppo", "CartPole-v1")})
    return StandIn("stand_in", "Stand-in", {"threads": (1, 2)}, works)


def watched(tmp_path, peer, seconds=60.0, **more):
    return running.watch(peer, Path(sys.executable), {}, seconds, tmp_path / "log", **more)


def test_a_run_is_watched_until_its_return(tmp_path):
    points = watched(tmp_path, stand_in(tmp_path), until=3.0)
    assert points[-1].mean >= 3.0 and all((one.mean or 0) < 3.0 for one in points[:-1])
    assert points[0].mean is None
    assert points[-1].steps >= 300


def test_what_a_peer_has_said_is_read_once(tmp_path, monkeypatch):
    read, parsed = list[str](), running.lines

    def lines(text):
        read.append(text)
        return parsed(text)

    monkeypatch.setattr(running, "lines", lines)
    points = watched(tmp_path, stand_in(tmp_path), until=8.0)
    assert len(points) > 50 and (tmp_path / "log").read_text().startswith("".join(read))


def test_a_run_is_cut_off_at_its_limit(tmp_path):
    points = watched(tmp_path, stand_in(tmp_path), seconds=5.0, until=1e9)
    assert points[-1].seconds >= 5.0 > points[-2].seconds


def test_a_run_that_ends_before_is_as_far_as_it_came(tmp_path):
    ends = LEARNING.replace("while True", "for _ in range(3)")
    assert len(watched(tmp_path, stand_in(tmp_path, ends), until=1e9)) == 3
    with pytest.raises(Failed, match="exit code 1: ValueError: broken"):
        watched(tmp_path, stand_in(tmp_path, "raise ValueError('broken')"))


def test_both_sides_are_timed_in_turn_and_the_peers_fastest_way_is_kept(
    tmp_path, monkeypatch, capsys
):
    peer, tried = stand_in(tmp_path), []
    monkeypatch.setattr(until, "UNTIL_PEERS", (peer,))
    monkeypatch.setattr(until, "installed", lambda peer: Path(sys.executable))
    monkeypatch.setattr(tuning, "folder_for", lambda peer: tmp_path)
    searched = tuning._searched

    def counted(*arguments):
        tried.append(1)
        return searched(*arguments)

    monkeypatch.setattr(tuning, "_searched", counted)
    flags = ["--until=18", "--level_name=CartPole-v1", "--repeats=1", "--tune_s=5"]
    # One run of this trainer shows that it is timed.
    for ours in (until._ours, lambda own, seed: until.Run(5.0, 500, True)):
        monkeypatch.setattr(until, "_ours", ours)
        until.measure([*flags, "--peers=stand_in", f"--results={tmp_path}"])
        [mine, theirs] = json.loads((tmp_path / "peers-until.json").read_text())["rows"]
        assert mine["trainer"] == "this trainer" and mine["reached"] == "1 of 1"
        assert theirs["settings"] == "ppo, threads=2" and theirs["reached"] == "1 of 1"
        assert "1 of 1" in capsys.readouterr().out
    assert len(tried) == 1
    [way] = json.loads((tmp_path / "fastest.json").read_text()).values()
    assert way == {"threads": 2}


def test_a_turn_that_fails_loses_none_before_it(tmp_path, monkeypatch, capsys):
    fails = LEARNING.replace("steps, rate", "assert work['seed'] != 3, 'broken'\n    steps, rate")
    peer = stand_in(tmp_path, fails)
    monkeypatch.setattr(until, "UNTIL_PEERS", (peer,))
    monkeypatch.setattr(until, "_ready", lambda own, peer: (Path(sys.executable), {"threads": 2}))
    monkeypatch.setattr(until, "_ours", lambda own, seed: until.Run(5.0, 500, True))
    flags = ["--until=3", "--level_name=CartPole-v1", f"--results={tmp_path}"]
    with pytest.raises(UserError, match="turn 3 failed, .* before: Stand-in: .*broken"):
        until.measure([*flags, "--repeats=3", "--peers=stand_in"])
    [_, theirs] = json.loads((tmp_path / "peers-until.json").read_text())["rows"]
    assert theirs["reached"] == "2 of 2"
    assert "2 of 2" in capsys.readouterr().out
    with pytest.raises(UserError, match="^Stand-in: .*broken"):
        until.measure([*flags, "--repeats=1", "--seed=3", "--peers=stand_in"])


@pytest.mark.parametrize(("reached", "limit"), [(True, 50.0), (False, 3600.0)])
def test_a_peer_is_cut_off_by_our_time_only_where_we_got_there(
    tmp_path, monkeypatch, capsys, reached, limit
):
    def watch(peer, python, work, seconds, log, until):
        assert seconds == limit
        return [running.Progress(seconds, 100.0, 1.0)]

    monkeypatch.setattr(until, "UNTIL_PEERS", (stand_in(tmp_path),))
    monkeypatch.setattr(until, "_ready", lambda own, peer: (Path(sys.executable), {}))
    monkeypatch.setattr(until, "_ours", lambda own, seed: until.Run(5.0, 500, reached))
    monkeypatch.setattr(running, "watch", watch)
    flags = ["--until=3", "--repeats=1", "--peers=stand_in", f"--results={tmp_path}"]
    until.measure([*flags, "--level_name=CartPole-v1"])
    [_, theirs] = json.loads((tmp_path / "peers-until.json").read_text())["rows"]
    assert theirs["reached"] == ("0 of 1, ratio at least" if reached else "0 of 1")
    assert f"has {limit:.0f} s" in capsys.readouterr().err


def test_a_run_of_ours_that_ends_before_its_first_report_has_not_got_there(tmp_path, monkeypatch):
    (tmp_path / "experiment.py").write_text("print('Ended: 0.5 s have passed (--stop_after_s).')")
    monkeypatch.setattr(until, "PROJECT", tmp_path)
    run = until._ours(until.Own(until=3.0, most_s=0.5), seed=1)
    assert run.seconds > 0 and (run.steps, run.reached) == (0, False)


def test_a_stop_loses_no_turn_before_it(tmp_path, monkeypatch):
    def ours(own, seed):
        if seed == 3:
            raise KeyboardInterrupt
        return until.Run(5.0, 500, True)

    monkeypatch.setattr(until, "_ours", ours)
    with pytest.raises(KeyboardInterrupt):
        until.measure(["--until=3", "--repeats=3", "--peers=none", f"--results={tmp_path}"])
    [row] = json.loads((tmp_path / "peers-until.json").read_text())["rows"]
    assert row["reached"] == "2 of 2"


def test_the_zoo_has_what_is_compared():
    tree = ast.parse((Path(known.__file__).parent / "drive_sb3.py").read_text())
    [zoo] = [one for one in ast.walk(tree)
             if isinstance(one, ast.AnnAssign) and ast.unparse(one.target) == "ZOO"]  # fmt: skip
    assert isinstance(zoo.value, ast.Dict)
    keys = [ast.literal_eval(key) for key in zoo.value.keys if key]
    [peer] = known.chosen("sb3", known.UNTIL_PEERS)
    assert set(keys) == peer.works


@pytest.mark.parametrize(
    ("given", "ours", "theirs", "peers"),
    [
        ({}, "ppo", "ppo", "sb3"),
        ({"algorithm": "a2c"}, "a2c", "a2c", "sb3"),
        ({"preset": "dqn_lunarlander", "level_name": "LunarLander-v3"}, "double_dqn", "dqn", "sb3"),
        ({"preset": "dqn_lunarlander"}, "double_dqn", "dqn", "sb3"),
        ({"algorithm": "impala", "peer_algorithm": "ppo"}, "impala", "ppo", "sb3"),
        ({"level_name": PONG}, "ppo", "ppo", "sb3,sample_factory"),
        ({"level_name": PONG, "peers": "sample_factory"}, "ppo", "ppo", "sample_factory"),
        ({"level_name": "Catch-v0", "peers": "none"}, "ppo", "ppo", "none"),
    ],
)
def test_peers_have_the_algorithm_of_this_trainer(given, ours, theirs, peers):
    own = until._with_algorithms(until.Own(until=1.0, **given))
    assert (own.algorithm, own.peer_algorithm, own.peers) == (ours, theirs, peers)
    level = "LunarLander-v3" if "preset" in given else given.get("level_name", "CartPole-v1")
    assert until._work(own, 1) == {"level": level, "algorithm": theirs, "seed": 1}
    assert f"--level_name={level}" in until._flags(own)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--preset=dqn_lunarlandr"], "dqn_lunarlandr"),
        (["--algorithm=impala"], "=impala --level_name=CartPole-v1: .* are a2c, dqn, ppo"),
        (["--level_name=Catch-v0"], "=Catch-v0: .* CartPole-v1, HalfCheetah-v5, LunarLander-v3, P"),
        (["--algorithm=sac"], "--algorithm=sac"),
        (["--peers=sb3,sb3"], "--peers=sb3,sb3: sb3 is given twice"),
        (["--peers=sample_factory"], "Sample Factory .* no settings for it. Known are PongNo"),
    ],
)
def test_mistakes_are_refused_before_anything_is_installed(tmp_path, monkeypatch, flags, words):
    monkeypatch.setattr(until, "installed", None)
    with pytest.raises(UserError, match=words):
        until.measure(["--until=3", f"--results={tmp_path}", *flags])


def test_a_search_compares_whole_rounds():
    def points(is_round):
        return [running.Progress(second, 10.0 * second, None, is_round) for second in range(20)]

    unlike = [running.Progress(20.0, 10**6, None)]  # in the midst of a round
    assert tuning._steady([*points(True), *unlike])[-1].seconds == 19
    assert len(tuning._steady(points(False))) == 10
    few = [*points(False)[:18], *points(True)[18:]]
    assert tuning._steady(few) == few[10:]
