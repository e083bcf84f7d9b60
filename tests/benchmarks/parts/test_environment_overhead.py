"""The benchmark of environments steps ours and the bare ones, and compares turn by turn."""

import json
import re

import numpy as np
import pytest

from benchmarks.parts import environment_overhead
from tests.benchmarks.whole.stopping import stopped_at
from user_error import UserError


@pytest.mark.parametrize(
    ("level_name", "bare"),
    [("PongNoFrameskip-v4", "AtariVectorEnv, 4 frames"), ("CartPole-v1", "gymnasium.make_vec")],
)
def test_ours_stands_beside_the_bare_environment(level_name, bare, capsys, tmp_path):
    flags = [f"--level_name={level_name}", "--num_envs=1", "--num_steps=2", "--repeats=1"]
    environment_overhead.measure([*flags, f"--results={tmp_path}"])
    lines = capsys.readouterr().out.splitlines()
    [theirs] = [line for line in lines if line.startswith(bare)]
    [ours] = [line for line in lines if line.startswith("environments.make")]
    # One turn: the middle, the lowest and the highest are the same, and we are 1.00 of ourselves.
    rate, ratio = (float(figures(line)[0].replace(",", "")) for line in (theirs, ours))
    assert figures(ours)[1] == "1.00"
    # Rates are printed as whole numbers, the ratio with two digits.
    rounded = 0.006 + ratio / rate * (0.5 / ratio + 0.5 / rate)
    assert float(figures(theirs)[1]) == pytest.approx(ratio / rate, abs=rounded)


def test_a_level_that_nothing_stands_beside_is_refused(tmp_path):
    with pytest.raises(UserError, match="--level_name=dummy:16-1000: nothing bare is known"):
        environment_overhead.measure(["--level_name=dummy:16-1000", f"--results={tmp_path}"])


def figures(line: str) -> list[str]:
    """The middle of the rates, and that of the ratios."""
    return re.findall(r"([\d.,]+) \([\d.,]+–[\d.,]+\)", line)


def test_a_rate_counts_the_steps_of_all_environments_by_the_clock(monkeypatch):
    now = iter([10.0, 12.0])
    monkeypatch.setattr(environment_overhead.time, "perf_counter", lambda: next(now))
    stepped: list[np.ndarray] = []
    actions = np.arange(30).reshape(10, 3)
    assert environment_overhead.rate(stepped.append, actions) == 30 / 2.0
    assert np.array_equal(stepped, actions)


def test_ours_is_compared_with_each_bare_one_within_a_turn(monkeypatch, capsys, tmp_path):
    # After a turn to warm up: ours at 90 and 40 agent steps/s, the bare one at 100 and 80.
    rates = {"bare": iter([1.0, 100.0, 80.0]), environment_overhead.OURS: iter([1.0, 90.0, 40.0])}
    monkeypatch.setattr(environment_overhead, "contenders", lambda own: {n: n for n in rates})
    monkeypatch.setattr(environment_overhead, "rate", lambda step, actions: next(rates[step]))
    flags = ["--level_name=CartPole-v1", "--num_envs=1", "--num_steps=1", "--repeats=2"]
    environment_overhead.measure([*flags, f"--results={tmp_path}"])
    [row] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("bare")]
    assert figures(row) == ["90", "0.70"]


def test_turns_that_have_ended_are_written_when_it_is_stopped(monkeypatch, tmp_path):
    monkeypatch.setattr(environment_overhead, "rate", stopped_at(6, 100.0))
    flags = ["--level_name=CartPole-v1", "--num_envs=1", "--num_steps=1", "--repeats=5"]
    with pytest.raises(KeyboardInterrupt):
        environment_overhead.measure([*flags, f"--results={tmp_path}"])
    kept = json.loads((tmp_path / "environment_overhead.json").read_text())
    assert [row["agent steps/s"]["values"] for row in kept["rows"]] == [[100.0]] * 2
