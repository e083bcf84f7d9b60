"""Reports reach the terminal and all files, and can be read back."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tensorboard.util import tensor_util

from algorithms.own_settings.impala import ImpalaSettings
from tests.trainer.reports import ABOUT, events, figures, of_levels, samples, scalars, settings_of
from trainer.reporting import wording
from trainer.reporting.reporter import Reporter, read_metrics
from trainer.settings import config
from trainer.storage.records import LONGEST_ROW, newest_metrics

ROOT = Path(__file__).parents[3]


@pytest.fixture
def reporter(tmp_path):
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        yield reporter


def test_reports_need_no_tensorflow():
    """Its import takes seconds."""
    check = "import sys, trainer.reporting.reporter\nsys.exit('tensorflow' in sys.modules)"
    assert subprocess.call([sys.executable, "-c", check], cwd=ROOT) == 0


def test_metrics_hold_every_figure_of_every_report(reporter, tmp_path):
    reports = [figures(frames) for frames in (1000, 2000, 3000)]
    for report in reports:
        reporter.report(report, samples())
    assert read_metrics(tmp_path) == reports
    assert read_metrics(tmp_path / "metrics.jsonl") == reports


def test_the_newest_report_is_found_at_the_end_of_a_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert newest_metrics(tmp_path) == newest_metrics(tmp_path / "none") == {}
    path.write_text("")
    assert newest_metrics(tmp_path) == {}
    row = {"environment_frames": 7, "figure": "x" * 1000}
    many = [json.dumps(row | {"environment_frames": frames}) for frames in range(1000)]
    # A resume has undone some, and a crash has cut off the last one.
    path.write_text("\n".join([*many, json.dumps(row), '{"environment_fra']))
    assert path.stat().st_size > 3 * LONGEST_ROW
    assert newest_metrics(tmp_path) == row == read_metrics(tmp_path)[-1]


def test_the_best_return_is_of_as_many_episodes_as_a_mean_has(reporter):
    reporter.report(figures(1000, mean_episode_return=-19.0, recent_episodes=1), {})
    reporter.report(figures(2000, mean_episode_return=None, recent_episodes=0), {})
    assert reporter.best_return() == -19.0
    reporter.report(figures(3000, mean_episode_return=-20.5, recent_episodes=100), {})
    reporter.report(figures(4000, mean_episode_return=-20.7, recent_episodes=100), {})
    assert reporter.best_return() == -20.5


def test_a_report_is_written_to_disk_at_once(reporter, tmp_path):
    reporter.report(figures(1000), {})
    assert (tmp_path / "metrics.jsonl").read_text().endswith("}\n")


def test_numbers_that_are_not_finite_become_null(reporter, tmp_path):
    reporter.report(
        figures(total_loss=float("nan"), entropy=np.float32("inf"), policy_lag=None), {}
    )
    text = (tmp_path / "metrics.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text
    row = json.loads(text)
    assert row["total_loss"] is row["entropy"] is row["policy_lag"] is None


def test_numpy_numbers_are_written_as_numbers(reporter, tmp_path):
    reporter.report(figures(np.int64(1000), entropy=np.float32(0.5)), {})
    [row] = read_metrics(tmp_path)
    assert (row["environment_frames"], row["entropy"]) == (1000, 0.5)


def test_tensorboard_shows_the_same_figures_as_the_metrics_file(reporter, tmp_path):
    for frames in (1000, 2000):
        reporter.report(figures(frames, policy_lag=frames / 7, time_left=None), samples())
    shown = scalars(tmp_path)
    for name in ("mean_episode_return", "policy_lag", "environment_frames", "wall_time"):
        rows = [(row["environment_frames"], row[name]) for row in read_metrics(tmp_path)]
        assert [step for step, _ in shown[name]] == [step for step, _ in rows]
        assert [value for _, value in shown[name]] == pytest.approx([value for _, value in rows])
    assert "time_left" not in shown


def test_tensorboard_has_histograms_of_the_samples(reporter, tmp_path):
    drawn = samples()
    drawn["baseline"][0, 0] = np.nan
    reporter.report(figures(1000), drawn)
    [event] = events(tmp_path).Tensors("baseline")
    buckets = tensor_util.make_ndarray(event.tensor_proto)
    assert event.step == 1000
    assert buckets[:, 2].sum() == drawn["baseline"].size - 1
    assert buckets[0, 0] == pytest.approx(np.nanmin(drawn["baseline"]))
    assert buckets[-1, 1] == pytest.approx(np.nanmax(drawn["baseline"]))


def test_no_name_in_tensorboard_is_both_a_curve_and_a_histogram(reporter, tmp_path):
    for frames, value in ((1000, 0.5), (2000, None), (3000, 0.25)):
        reporter.report(figures(frames, baseline=value), samples())
    tags = events(tmp_path).Tags()
    assert "baseline" in tags["scalars"] and tags["tensors"] == ["baseline/histogram"]


def test_a_resumed_run_appends_and_the_undone_reports_are_dropped(tmp_path):
    for start in (1000, 3500):
        with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
            for frames in range(start, start + 4000, 1000):
                reporter.report(figures(frames, entropy=start), {})
    rows = read_metrics(tmp_path)
    left = [1000, 2000, 3000, 3500, 4500, 5500, 6500]
    assert [row["environment_frames"] for row in rows] == left
    assert [row["entropy"] for row in rows] == [1000] * 3 + [3500] * 4
    assert [step for step, _ in scalars(tmp_path)["entropy"]] == left
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 8


def test_time_does_not_go_back_where_a_resumed_run_is_faster(tmp_path):
    for part in ((1000, 10.0), (2000, 20.0), (3000, 30.0)), ((4000, 15.0), (8000, 25.0)):
        with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
            for frames, seconds in part:
                reporter.report(figures(frames, wall_time=seconds), {})
    assert [row["environment_frames"] for row in read_metrics(tmp_path)] == [1000, 4000, 8000]


@pytest.mark.parametrize("torn", [b'{"environment_frames": 20', b"\0\0\0", b"\xff\xfe", b"[1]"])
def test_a_line_that_a_crash_cut_short_affects_no_other(torn, tmp_path):
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        reporter.report(figures(1000), {})
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(torn)
    assert [row["environment_frames"] for row in read_metrics(tmp_path)] == [1000]
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        reporter.report(figures(2000), {})
    assert [row["environment_frames"] for row in read_metrics(tmp_path)] == [1000, 2000]


def test_a_run_that_reported_nothing_has_no_metrics(tmp_path):
    assert read_metrics(tmp_path) == []


def test_the_settings_are_kept_beside_the_reports(tmp_path):
    settings = settings_of(tmp_path, seed=7)
    with Reporter(tmp_path, settings, ABOUT) as reporter:
        assert not (tmp_path / "settings.json").exists()  # it may be trained already
        reporter.write_settings()
        assert (tmp_path / "settings.json").read_text() == config.to_json(settings) + "\n"
    assert not list(tmp_path.glob(".*"))


def test_lines_go_to_the_terminal_and_with_timestamps_to_the_log(tmp_path, capsys):
    reporter = Reporter(tmp_path, settings_of(tmp_path), ABOUT)
    reporter.say("Resuming from checkpoints/frames-000000000001000.npz.\nA second line.")
    reporter.report(figures(), {})
    printed = capsys.readouterr().out.splitlines()
    logged = (tmp_path / "train.log").read_text().splitlines()
    assert printed[0] == "agent SimpleConvNetAgent · level PongNoFrameskip-v4 · weights 1,684,128"
    assert printed[2] == "A second line."
    stamp = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ")
    assert all(stamp.match(line) for line in logged)
    without = [stamp.sub("", line, count=1) for line in logged]
    assert [line for line in without if not line.startswith("flags: ")] == printed


def test_the_log_has_the_flags_that_repeat_the_run(reporter, tmp_path):
    text = (tmp_path / "train.log").read_text()
    assert f"flags: --logdir={tmp_path} --agent_name=SimpleConvNetAgent" in text


def test_a_plain_line_names_its_figures():
    line = wording.line(figures(1_234_567), 20_000_000, ImpalaSettings.figures)
    for words in (
        "frames  1,234,567",
        "6.1%",
        "frames/s   2,346",
        "agent steps/s     586",
        "1 h 06 min",
        "mean raw return   -12.5",
        "policy lag  1.500",
        "learner waits  40%",
        "actors wait   3%",
        "limited by: actors (emulation + inference)",
    ):
        assert words in line
    assert "skipped" not in line


def test_plain_lines_are_aligned_from_report_to_report():
    few = wording.line(
        figures(4, mean_episode_return=None, time_left=None), 20_000_000, ImpalaSettings.figures
    )
    many = wording.line(
        figures(19_999_999, mean_episode_return=-20.9, policy_lag=12.0),
        20_000_000,
        ImpalaSettings.figures,
    )
    assert few.index("limited by") == many.index("limited by")


def test_a_plain_line_names_levels_and_skipped_updates_if_there_are_any():
    line = wording.line(of_levels(skipped_updates=3), 20_000_000, ImpalaSettings.figures)
    assert "PongNoFrameskip-v4 10.0  BreakoutNoFrameskip-v4 11.0  CartPole-v1 –" in line
    assert "skipped updates 3" in line


@pytest.mark.parametrize(
    ("learner", "actors", "verdict"),
    [
        (0.6, 0.0, "actors (emulation + inference)"),
        (0.0, 0.5, "learner"),
        (0.05, 0.1, "balanced"),
        (None, 0.1, "–"),
    ],
)
def test_the_bottleneck_follows_from_who_waits(learner, actors, verdict):
    waits = {"learner_wait_share": learner, "actor_wait_share": actors}
    assert wording.limited_by(waits) == verdict


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (7380, "2 h 03 min"),
     (90_000, "1 d 01 h"), (None, "–")],
)  # fmt: skip
def test_durations_have_two_units(seconds, text):
    assert wording.duration(seconds) == text


def test_progress_is_100_percent_only_when_all_frames_are_done():
    assert wording.progress(0.99999) == "99.9%"
    assert wording.progress(1.0) == "100.0%"


def test_a_run_that_was_stopped_before_its_first_report_has_a_summary(tmp_path, capsys):
    nothing = {"environment_frames": 0, "wall_time": 1.0, "mean_episode_return": None}
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        reporter.finish(nothing, "SIGINT")
    printed = capsys.readouterr().out
    assert "Ended: SIGINT." in printed and "mean raw return  –" in printed
    assert (tmp_path / "learning_curve.png").exists()
