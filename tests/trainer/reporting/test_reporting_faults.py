"""Neither a full disk nor a missing folder nor a reader that leaves stops a training."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainer.disks import files_limited_to
from tests.trainer.reports import ABOUT, figures, samples, scalars, settings_of
from trainer.reporting import several
from trainer.reporting.reporter import Reporter, read_metrics
from trainer.settings import config
from trainer.storage.records import LinesFile

ROOT = Path(__file__).parents[3]
FULL = Path("/dev/full")


@pytest.fixture
def reporter(tmp_path):
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        yield reporter


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("name", ["metrics.jsonl", "train.log"])
def test_a_full_disk_is_reported_once_and_written_again_when_there_is_room(name, tmp_path, capsys):
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to(FULL)
        for frames in (1000, 2000):
            reporter.report(figures(frames), samples())
        printed = capsys.readouterr().out
        assert printed.count("warning:") == 1
        assert f"{name} in {tmp_path} cannot be written (No space left on device)" in printed
        (tmp_path / name).unlink()
        reporter.report(figures(3000), samples())
        assert "can be written again" in capsys.readouterr().out
    assert (tmp_path / name).read_bytes().count(b"\n") >= 1
    assert len(scalars(tmp_path)["entropy"]) == 3


def test_settings_that_found_no_room_are_written_with_a_later_report(tmp_path, capsys):
    settings, path = settings_of(tmp_path), tmp_path / "settings.json"
    with Reporter(tmp_path, settings, ABOUT) as reporter:
        with files_limited_to(1000):
            reporter.write_settings()
        assert not path.exists()
        warning = f"warning: settings.json in {tmp_path} cannot be written"
        assert warning in capsys.readouterr().out
        reporter.report(figures(1000), samples())
        assert path.read_text() == config.to_json(settings) + "\n"
        assert "can be written again" in capsys.readouterr().out
        path.unlink()
        reporter.report(figures(2000), samples())
        assert not path.exists()  # once is enough


def test_a_missing_folder_stops_nothing(tmp_path, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    with Reporter(folder, settings_of(folder), ABOUT) as reporter:
        reporter.report(figures(1000), samples())
        folder.rename(tmp_path / "moved")
        reporter.report(figures(2000), samples())
        reporter.finish(figures(2000), "all frames are trained")
        printed = capsys.readouterr().out
        assert printed.count("cannot be written") == 1
        assert "the learning curve could not be drawn" in printed
        (tmp_path / "moved").rename(folder)
        reporter.report(figures(3000), samples())
    assert [row["environment_frames"] for row in read_metrics(folder)] == [1000, 3000]


def test_a_picture_that_cannot_be_drawn_keeps_no_training_from_its_end(
    tmp_path, capsys, monkeypatch
):
    def fails(*_):
        raise RuntimeError("no fonts")

    monkeypatch.setattr("trainer.reporting.reporter.write_curve", fails)
    monkeypatch.setattr("trainer.reporting.several.write_curves", fails)
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        reporter.report(figures(1000), samples())
        reporter.finish(figures(1000), "all frames are trained")
    several.draw(tmp_path, settings_of(tmp_path), print)
    printed = capsys.readouterr().out
    assert "the learning curve could not be drawn (no fonts)" in printed
    assert "Ended: all frames are trained" in printed
    assert "the learning curves could not be drawn (no fonts)" in printed


def test_a_report_that_does_not_fit_leaves_nothing_behind(reporter, tmp_path):
    reporter.report(figures(1000), samples())
    files = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    smallest = min(map(len, files.values()))
    for extra in (-1, 10):
        with files_limited_to(smallest + extra):
            reporter.report(figures(2000), samples())
    assert {path: path.read_bytes() for path in files} == files
    reporter.report(figures(3000), samples())
    assert [row["environment_frames"] for row in read_metrics(tmp_path)] == [1000, 3000]
    assert [step for step, _ in scalars(tmp_path)["entropy"]] == [1000, 3000]


def test_an_events_file_that_could_not_be_started_is_started_later(reporter, tmp_path):
    with files_limited_to(10):
        reporter.report(figures(1000), samples())
    reporter.report(figures(2000), samples())
    assert [step for step, _ in scalars(tmp_path)["entropy"]] == [2000]


def test_lines_are_complete_after_a_line_was_cut_short(tmp_path):
    file = LinesFile(tmp_path / "lines")
    with files_limited_to(4):
        file.append_line("too long")
    assert file.error is not None
    file.append_line("fits")
    assert file.error is None
    assert (tmp_path / "lines").read_text() == "fits\n"


SCRIPT = """
import sys
from pathlib import Path
from trainer.settings.config import Settings
from trainer.reporting.reporter import Reporter
from tests.trainer.disks import files_limited_to
from tests.trainer.reports import figures
settings = Settings(logdir=sys.argv[1], total_environment_frames=16_000_000)
reporter = Reporter(Path(sys.argv[1]), settings, {"level": "Pong"})
for i in range(2000):
    reporter.report(figures(1000 * i), {})
reporter.finish(figures(), "all frames are trained")
"""


@pytest.mark.parametrize("into", ["head -1", "exit", "cat >/dev/full"])
def test_a_training_survives_the_reader_of_its_output(into, tmp_path):
    script = SCRIPT.replace("2000", "300")
    done = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" "$2" | {into}; exit ${{PIPESTATUS[0]}}']
        + [sys.executable, script, str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert len(read_metrics(tmp_path)) == 300
