"""The study of lag: desktops that are played with lag added, beside what their games have seen."""

import csv
import errno
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from environments.realtime.link import Link, Snapshot
from sandbox import studies, study_lag
from tests.pictures import coloured

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
        ("--out=/proc/lag", "cannot be written"),
        ("--out=", "expected a name for files"),
        ("--out=.", "expected a name for files"),
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


def row_of(lag_ms, seconds=0.0, remotes=0):
    return dict.fromkeys(study_lag.COLUMNS, 1.0) | {"lag_ms": lag_ms}


def test_what_was_played_before_it_is_killed_is_kept_under_its_whole_name(tmp_path, monkeypatch):
    class Killed(BaseException):
        """Nothing is written from now on."""

    def play(lag_ms, seconds, remotes):
        if lag_ms:
            monkeypatch.setattr(studies, "write_whole", None)
            raise Killed
        return row_of(lag_ms)

    monkeypatch.setattr(study_lag, "play", play)
    monkeypatch.setattr(study_lag.common, "unwind_when_stopped", lambda: None)
    out = tmp_path / "x" / "lag-1.5"
    monkeypatch.setattr(sys, "argv", ["study_lag", "--lags=0,40,80", f"--out={out}"])
    with pytest.raises(Killed):
        study_lag.main()
    [row] = json.loads((tmp_path / "x" / "lag-1.5.json").read_text())["rows"]
    assert row["lag_ms"] == 0
    assert {file.name for file in out.parent.iterdir()} == {
        *("lag-1.5.json", "lag-1.5.csv", "lag-1.5.png")
    }


@pytest.mark.parametrize("full", [".csv", ".png"])
def test_a_full_disk_is_one_line_and_the_rest_is_written_once_there_is_room(
    full, tmp_path, monkeypatch, capsys
):
    write_whole = studies.write_whole

    def write(path, content):
        if path.suffix == full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(path, content)

    monkeypatch.setattr(study_lag, "play", row_of)
    monkeypatch.setattr(study_lag.common, "unwind_when_stopped", lambda: None)
    out = tmp_path / "lag"
    monkeypatch.setattr(sys, "argv", ["study_lag", "--lags=0", f"--out={out}"])
    with monkeypatch.context() as patched:
        patched.setattr(studies, "write_whole", write)
        assert study_lag.main() == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"study_lag: --out={out} cannot be written (No space left on device)."
    assert len(json.loads((tmp_path / "lag.json").read_text())["rows"]) == 1
    monkeypatch.setattr(study_lag, "play", None)  # nothing is played for it
    assert study_lag.main() == 0
    assert {file.name for file in tmp_path.iterdir()} == {"lag.json", "lag.csv", "lag.png"}


def test_a_reaction_is_right_on_a_host_that_has_been_up_for_longer_than_stamps_count(tmp_path):
    record, link, watched = tmp_path / "record", Link.__new__(Link), study_lag.Watched()
    key = json.dumps({"what": "key", "at": 2.0**32 + 5000})
    record.write_text(f"{key}\n" * 7)
    watched.keys[link] = [4900.0] * 6 + [float("nan")]
    known, unknown = study_lag._reactions(record, link, watched)
    assert known == 100 and np.isnan(unknown)


def test_a_picture_without_a_stamp_is_answered_at_an_unknown_age():
    link = Link.__new__(Link)
    black = np.zeros([1, 1, 3], np.uint8)
    snapshot = Snapshot(black, black, None, 0.0, None, 0, [])
    with study_lag.Watched() as watched:
        study_lag.realtime.observation_lag(snapshot, link, 0.0)
    assert np.isnan(watched.acted_on[link])


def test_a_remote_that_is_lost_while_it_is_measured_is_one_line(tmp_path, monkeypatch, capsys):
    class Lost:
        """Two remotes, of which one is another from the third step on."""

        def __init__(self, *_: object) -> None:
            self._seats = [SimpleNamespace(link="first"), SimpleNamespace(link="second")]
            self._steps = 0

        def reset(self) -> SimpleNamespace:
            return SimpleNamespace(observation=np.zeros([2, 10, 10, 1], np.uint8))

        def step(self, actions: np.ndarray) -> SimpleNamespace:
            self._steps += 1
            if self._steps == 3:
                self._seats[1].link = "another"
            assert self._steps < 4
            return self.reset()

        def episodes(self) -> list[object]:
            return []

        def figures(self) -> dict[str, np.ndarray]:
            return {}

        def close(self) -> None:
            pass

    monkeypatch.setattr(study_lag.realtime, "RealTimeEnvironment", Lost)
    monkeypatch.setattr(study_lag.common, "unwind_when_stopped", lambda: None)
    flags = ("--lags=0", "--seconds=20", "--remotes=2", f"--out={tmp_path}/lag")
    monkeypatch.setattr(sys, "argv", ["study_lag", *flags])
    assert study_lag.main() == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "a remote was lost while it was measured; the same command" in line
    assert not list(tmp_path.iterdir())


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
    assert coloured(out.with_suffix(".png")) > 0


def test_a_flag_that_is_cut_short_overwrites_no_study(monkeypatch, capsys):
    monkeypatch.setattr(study_lag, "play", None)
    monkeypatch.setattr(sys, "argv", ["study_lag", "--smok"])
    assert study_lag.main() == 2
    assert capsys.readouterr().err.startswith("study_lag: unrecognized arguments: --smok.")
