"""The study of lag: desktops that are played with lag added, beside what their games have seen."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import study_lag

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--seconds=100,150", "2 numbers for 3 lags"),
        ("--lags=0,much", "expected numbers"),
        ("--lags=0,-5", "expected numbers from 0"),
        ("--lags=nan", "expected numbers from 0"),
        ("--remotes=0", "must be 1 or more"),
        ("--out=/proc/none/lag", "cannot be written"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_before_anything_is_played(
    flag, told, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["study_lag", flag])
    assert study_lag.main() == 2
    assert flag in (said := capsys.readouterr().err) and told in said


def test_lags_that_were_played_when_it_is_stopped_are_not_played_again(
    tmp_path, monkeypatch, capsys
):
    played: list[int] = []

    def play(lag_ms, seconds, remotes):
        if lag_ms == 80 and not played:
            played.append(80)
            raise KeyboardInterrupt
        if lag_ms != 80 and played:
            raise AssertionError(f"{lag_ms} was played before")
        return dict.fromkeys(study_lag.COLUMNS, 1.0) | {"lag_ms": lag_ms}

    monkeypatch.setattr(study_lag, "play", play)
    monkeypatch.setattr(study_lag.common, "unwind_when_stopped", lambda: None)
    out = tmp_path / "lag"
    monkeypatch.setattr(sys, "argv", ["study_lag", "--lags=40,0,80", f"--out={out}"])
    assert study_lag.main() == 130
    rows = json.loads(out.with_suffix(".json").read_text())["rows"]
    assert [row["lag_ms"] for row in rows] == [0, 40]
    assert out.with_suffix(".csv").exists() and out.with_suffix(".png").exists()

    for _ in range(2):  # the second one has nothing to do
        assert study_lag.main() == 0
        kept = json.loads(out.with_suffix(".json").read_text())
        assert [row["lag_ms"] for row in kept["rows"]] == [0, 40, 80]
        assert kept["command"] == [f"--lags=40,0,80 --out={out}"] * 2
    assert "has lags of 40, 0, 80 ms; another --out plays" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["study_lag", "--remotes=2", f"--out={out}"])
    assert study_lag.main() == 2
    assert "was played with 8 at 10 frames a second" in capsys.readouterr().err


@pytest.mark.xdist_group("remotes")
def test_the_study_of_lag_runs_small_and_compares_every_episode(tmp_path):
    out = tmp_path / "out" / "lag"
    done = subprocess.run(
        [sys.executable, "-m", "sandbox.study_lag", "--smoke", f"--out={out}"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(out.with_suffix(".csv"), newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["lag_ms"], row["wrong_episodes"]) == ("40.0", "0")
    assert int(row["episodes"]) > 1 and float(row["reaction_ms"]) > 20
    assert row["one_sided_episodes"] == "0"
    assert json.loads(out.with_suffix(".json").read_text())["remotes"] == 2
    assert out.with_suffix(".png").stat().st_size > 5_000
