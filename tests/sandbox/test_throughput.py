"""The study of throughput: real learners and actors, beside published rates."""

import csv
import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.whole.scaleup.cases import Case
from sandbox import studies, study_throughput

PROJECT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandbox.study_throughput", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.mark.timeout(600)
def test_learners_and_actors_are_measured(tmp_path):
    """One of each; several are measured as in the benchmark of scale-up, which has tests of it."""
    out = tmp_path / "out" / "result"
    done = run(f"--out={out}", "--actors=1", "--learners=1", "--smoke", "--", "--env_threads=1")
    assert done.returncode == 0, done.stdout + done.stderr
    with open(f"{out}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    measured = [(row["learners"], row["actors"]) for row in rows]
    assert measured == [("1", "1"), ("1", "0")]
    assert all(float(row["steps_per_second"]) > 0 for row in rows)
    with Image.open(f"{out}.png") as picture:
        assert picture.width > 800
    record = json.loads(Path(f"{out}.json").read_text())
    assert record["command"].startswith(f"python -m sandbox.study_throughput --out={out}")
    assert "CartPole-v1" in record["what"] and record["versions"]["dm-sonnet"]
    assert done.stdout.count("| this trainer, here | 1 |") == 2


def test_turns_that_have_ended_are_written_when_it_is_stopped(tmp_path, monkeypatch, capsys):
    calls = []

    def rate(*_):
        calls.append(1)
        if len(calls) == 6:
            sys.exit(143)  # as a signal does it
        return 100.0

    monkeypatch.setattr(study_throughput, "rate_of", rate)
    monkeypatch.setattr(study_throughput, "measured", rate)
    monkeypatch.setattr(study_throughput.common, "unwind_when_stopped", lambda: None)
    out = tmp_path / "result"
    flags = ["--actors=1,2", "--learners=1,2", f"--out={out}", "--", "--repeats=3"]
    monkeypatch.setattr(sys, "argv", ["study_throughput", *flags])
    with pytest.raises(SystemExit):
        study_throughput.main()
    with open(f"{out}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    cases = [("1", "1"), ("1", "2"), ("1", "0"), ("2", "0")]
    assert [(row["learners"], row["actors"]) for row in rows] == cases
    assert [row["turn"] for row in rows] == ["1"] * 4
    assert json.loads(Path(f"{out}.json").read_text())["how"].startswith("1 turns; ")

    assert study_throughput.main() == 0  # goes on with the second turn
    assert "| this trainer, here | 2 |" in capsys.readouterr().out
    assert len(calls) == 6 + 2 * 4
    with open(f"{out}.csv", newline="") as file:
        assert [row["turn"] for row in csv.DictReader(file)] == ["1", "2", "3"] * 4
    assert study_throughput.main() == 0 and len(calls) == 14
    assert f"{out}.csv has 3 turns already" in capsys.readouterr().out
    for flag, told in (
        ("--actors=2", "has other --actors or --learners"),
        ("--actors=1,2,3", "has other --actors or --learners"),
        ("--batch_size=8", "has turns of other settings"),
    ):
        other = [*flags, flag] if flag.startswith("--batch") else [flag, *flags[1:]]
        monkeypatch.setattr(sys, "argv", ["study_throughput", *other])
        assert study_throughput.main() == 2 and len(calls) == 14
        assert told in capsys.readouterr().err


@pytest.mark.parametrize("full", [1, 2])
def test_turns_count_once_their_table_is_written_whatever_ends_the_study(
    full, tmp_path, monkeypatch, capsys
):
    calls, tables = [], []
    write_whole = studies.write_whole

    def rate(*_):
        calls.append(1)
        return 100.0

    def write(path, content):
        tables.extend([path] if path.suffix == ".csv" else [])
        if len(tables) == full and path.suffix == ".csv":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(path, content)

    monkeypatch.setattr(study_throughput, "rate_of", rate)
    monkeypatch.setattr(study_throughput, "measured", rate)
    monkeypatch.setattr(study_throughput.common, "unwind_when_stopped", lambda: None)
    monkeypatch.setattr(studies, "write_whole", write)
    out = tmp_path / "result-1.5"
    flags = ["--actors=1", "--learners=1", f"--out={out}", "--", "--repeats=2"]
    monkeypatch.setattr(sys, "argv", ["study_throughput", *flags])
    assert study_throughput.main() == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(f"--out={out} cannot be written (No space left on device).")
    assert json.loads(Path(f"{out}.json").read_text())["how"].startswith(f"{full} turns; ")
    assert study_throughput.main() == 0
    assert len(calls) == 2 * (2 + 1)  # the turn that is missing is measured again
    with open(f"{out}.csv", newline="") as file:
        assert [row["turn"] for row in csv.DictReader(file)] == ["1", "2"] * 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--", "--level_nam=x"], "--level_name"),
        (["--actors=0"], "real actors"),
        (["--learners=two"], "--learners=two: expected numbers from 1"),
        (["--", "--workers_csv_path=hosts.csv"], "one machine"),
        (["--out=/proc/none/result"], "--out=/proc/none/result cannot be written"),
        (["--out="], "--out=: expected a name for files"),
    ],
)
def test_a_mistake_is_told_in_one_line(flags, words, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study_throughput.common, "unwind_when_stopped", lambda: None)
    given = [f"--out={tmp_path / 'out' / 'result'}", *flags]
    monkeypatch.setattr(sys, "argv", ["study_throughput", *given])
    assert study_throughput.main() == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1 and not list(tmp_path.iterdir())


def test_without_mpirun_a_line_says_so_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(study_throughput, "rate_of", None)
    monkeypatch.setattr(sys, "argv", ["study_throughput", f"--out={tmp_path}/result"])
    assert study_throughput.main() == 2
    assert "several learners need mpirun: run bin/setup" in capsys.readouterr().err


def test_rates_are_put_beside_the_most_and_beside_as_many_times_one_learner():
    rates = {
        Case(1, 1): [900.0, 1000.0, 1100.0],
        Case(1, 2): [2000.0, 2000.0, 2000.0],
        Case(1, 0): [5000.0, 4000.0, 5000.0],
        Case(2, 0): [9000.0, 8000.0, 9900.0],
    }
    group = study_throughput.here(rates)
    assert [(one.number, one.rate, one.share) for one in group.actors] == [
        (1, 1000.0, 0.5),
        (2, 2000.0, 1.0),
    ]
    assert [round(one.share, 3) for one in group.learners] == [1.0, 0.99]
    told = study_throughput.table([group])
    assert "| this trainer, here | 1 | 1,000 (900–1,100) | 0.50 |" in told
    # A learner of made-up unrolls is not the most that one learner does with actors.
    assert "| this trainer, here | 2 | 9,000 (8,000–9,900) | 0.99 |" in told


def test_the_published_tables_are_told_apart():
    group = study_throughput.published()
    assert [one.number for one in group.actors] == [15, 25, 35, 45, 50, 110]
    assert [(one.number, round(one.share, 2)) for one in group.learners] == [
        (1, 1.0),
        (2, 0.93),
        (3, 0.9),
        (4, 0.81),
        (5, 0.72),
        (8, 0.47),
    ]
