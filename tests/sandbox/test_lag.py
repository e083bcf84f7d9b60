"""The study of lag: desktops that are played with lag added, beside what their games have seen."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


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
