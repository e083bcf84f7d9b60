"""Where reports go: what is written can be read back, and nothing that fails stops a training."""

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import (
    STORE_EVERYTHING_SIZE_GUIDANCE,
    EventAccumulator,
)
from tensorboard.util import tensor_util

from impala import config, wording
from impala.config import Settings
from impala.records import LinesFile
from impala.reporting import Reporter, read_metrics, summary
from tests.impala.reports import LEVELS, figures, of_levels, samples

ROOT = Path(__file__).parents[2]
ABOUT = {"agent": "SimpleConvNetAgent", "level": "PongNoFrameskip-v4", "weights": "1,684,128"}
FULL = Path("/dev/full")


def settings_of(folder, **changed):
    chosen: dict[str, Any] = {
        "agent_name": "SimpleConvNetAgent",
        "total_environment_frames": 16_000_000,
    }
    return Settings(logdir=str(folder), **chosen | changed)


@pytest.fixture
def reporter(tmp_path):
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        yield reporter


def events(folder):
    accumulator = EventAccumulator(str(folder), STORE_EVERYTHING_SIZE_GUIDANCE)
    return accumulator.Reload()


def scalars(folder):
    read = events(folder)
    return {
        tag: [(event.step, event.value) for event in read.Scalars(tag)]
        for tag in read.Tags()["scalars"]
    }


def test_metrics_hold_every_figure_of_every_report(reporter, tmp_path):
    reports = [figures(frames) for frames in (1000, 2000, 3000)]
    for report in reports:
        reporter.report(report, samples())
    assert read_metrics(tmp_path) == reports
    assert read_metrics(tmp_path / "metrics.jsonl") == reports


def test_a_report_is_on_the_disk_at_once(reporter, tmp_path):
    reporter.report(figures(1000), {})
    assert (tmp_path / "metrics.jsonl").read_text().endswith("}\n")


def test_what_is_not_finite_becomes_null(reporter, tmp_path):
    reporter.report(
        figures(total_loss=float("nan"), entropy=np.float32("inf"), policy_lag=None), {}
    )
    text = (tmp_path / "metrics.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text
    row = json.loads(text)
    assert row["total_loss"] is row["entropy"] is row["policy_lag"] is None


def test_numbers_of_numpy_are_written_as_numbers(reporter, tmp_path):
    reporter.report(figures(np.int64(1000), entropy=np.float32(0.5)), {})
    [row] = read_metrics(tmp_path)
    assert (row["environment_frames"], row["entropy"]) == (1000, 0.5)


def test_tensorboard_shows_what_the_metrics_say(reporter, tmp_path):
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


@pytest.mark.parametrize("torn", [b'{"environment_frames": 20', b"\0\0\0", b"\xff\xfe", b"[1]"])
def test_a_line_that_a_crash_cut_short_harms_no_other(torn, tmp_path):
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
    with Reporter(tmp_path, settings, ABOUT):
        assert (tmp_path / "settings.json").read_text() == config.to_json(settings) + "\n"
    assert not list(tmp_path.glob(".*"))


def test_lines_go_to_the_terminal_and_stamped_to_the_log(tmp_path, capsys):
    reporter = Reporter(tmp_path, settings_of(tmp_path), ABOUT)
    reporter.say("Going on from checkpoints/frames-000000000001000.npz.\nA second line.")
    reporter.report(figures(), {})
    said = capsys.readouterr().out.splitlines()
    logged = (tmp_path / "train.log").read_text().splitlines()
    assert said[0] == "agent SimpleConvNetAgent · level PongNoFrameskip-v4 · weights 1,684,128"
    assert said[2] == "A second line."
    stamp = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ")
    assert all(stamp.match(line) for line in logged)
    without = [stamp.sub("", line, count=1) for line in logged]
    assert [line for line in without if not line.startswith("flags: ")] == said


def test_the_log_says_which_flags_make_the_run_again(reporter, tmp_path):
    text = (tmp_path / "train.log").read_text()
    assert f"flags: --logdir={tmp_path} --agent_name=SimpleConvNetAgent" in text


def test_a_plain_line_tells_the_figures_in_words():
    line = wording.line(figures(1_234_567), 20_000_000)
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
    few = wording.line(figures(4, mean_episode_return=None, time_left=None), 20_000_000)
    many = wording.line(figures(19_999_999, mean_episode_return=-20.9, policy_lag=12.0), 20_000_000)
    assert few.index("limited by") == many.index("limited by")


def test_a_plain_line_names_levels_and_skipped_updates_where_there_are_any():
    line = wording.line(of_levels(skipped_updates=3), 20_000_000)
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
def test_who_waits_tells_who_limits(learner, actors, verdict):
    waits = {"learner_wait_share": learner, "actor_wait_share": actors}
    assert wording.limited_by(waits) == verdict


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (7380, "2 h 03 min"),
     (90_000, "1 d 01 h"), (None, "–")],
)  # fmt: skip
def test_durations_are_told_in_two_units(seconds, text):
    assert wording.duration(seconds) == text


def test_a_run_is_done_to_100_percent_only_when_it_is():
    assert wording.progress(0.99999) == "99.9%"
    assert wording.progress(1.0) == "100.0%"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("name", ["metrics.jsonl", "train.log"])
def test_a_full_disk_is_told_once_and_written_again_when_there_is_room(name, tmp_path, capsys):
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to(FULL)
        for frames in (1000, 2000):
            reporter.report(figures(frames), samples())
        said = capsys.readouterr().out
        assert said.count("warning:") == 1
        assert f"{name} in {tmp_path} cannot be written (No space left on device)" in said
        (tmp_path / name).unlink()
        reporter.report(figures(3000), samples())
        assert "can be written again" in capsys.readouterr().out
    assert (tmp_path / name).read_bytes().count(b"\n") >= 1
    assert len(scalars(tmp_path)["entropy"]) == 3


def test_a_folder_that_has_gone_stops_nothing(tmp_path, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    with Reporter(folder, settings_of(folder), ABOUT) as reporter:
        reporter.report(figures(1000), samples())
        folder.rename(tmp_path / "moved")
        reporter.report(figures(2000), samples())
        reporter.finish(figures(2000), "all frames are trained")
        said = capsys.readouterr().out
        assert said.count("cannot be written") == 1
        assert "the learning curve could not be drawn" in said
        (tmp_path / "moved").rename(folder)
        reporter.report(figures(3000), samples())
    assert [row["environment_frames"] for row in read_metrics(folder)] == [1000, 3000]


@contextlib.contextmanager
def files_limited_to(size):
    """Writes beyond ``size`` fail after a part was taken, as on a disk that fills up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_of_what_does_not_fit_nothing_is_left_behind(reporter, tmp_path):
    reporter.report(figures(1000), samples())
    files = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    smallest = min(len(c) for path, c in files.items() if path.name != "settings.json")
    for extra in (-1, 10):
        with files_limited_to(smallest + extra):
            reporter.report(figures(2000), samples())
    assert {path: path.read_bytes() for path in files} == files
    reporter.report(figures(3000), samples())
    assert [row["environment_frames"] for row in read_metrics(tmp_path)] == [1000, 3000]
    assert [step for step, _ in scalars(tmp_path)["entropy"]] == [1000, 3000]


def test_an_events_file_that_could_not_be_begun_is_begun_later(reporter, tmp_path):
    with files_limited_to(10):
        reporter.report(figures(1000), samples())
    reporter.report(figures(2000), samples())
    assert [step for step, _ in scalars(tmp_path)["entropy"]] == [2000]


def test_lines_are_whole_after_a_line_was_cut_short(tmp_path):
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
from impala.config import Settings
from impala.reporting import Reporter
from tests.impala.reports import figures
settings = Settings(logdir=sys.argv[1], total_environment_frames=16_000_000)
reporter = Reporter(Path(sys.argv[1]), settings, {"level": "Pong"})
for i in range(2000):
    reporter.report(figures(1000 * i), {})
reporter.finish(figures(), "all frames are trained")
"""


@pytest.mark.parametrize("into", ["head -1", "exit", "cat >/dev/full"])
def test_a_training_outlives_who_reads_its_output(into, tmp_path):
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


RUN = {
    "level_name": "PongNoFrameskip-v4",
    "agent_name": "SimpleConvNetAgent",
    "num_actors": 2,
    "best_return": 19.25,
}


def test_the_summary_tells_what_was_trained_and_what_to_do_next():
    text = summary(figures(20_000_000) | RUN, "all frames are trained", Path("logs/pong"))
    for words in (
        "Ended: all frames are trained.",
        "SimpleConvNetAgent on PongNoFrameskip-v4",
        "20,000,000 in 2 h 13 min",
        "-12.5, at best 19.2",
        "2,346 frames/s, 586 agent steps/s",
        "actors (emulation + inference) (learner waits 40%, actors wait 3%)",
        "the learner was busy 60% of the time with 2 actors: it could carry about 3 actors",
        "tensorboard --logdir logs/pong",
        "--mode=test --logdir=logs/pong --level_name=PongNoFrameskip-v4",
    ):
        assert words in text


def test_the_summary_tells_how_busy_the_cores_were_and_what_would_help():
    def told(**changed):
        return summary(figures(**changed) | RUN | {"job_name": "local"}, "done", Path("x"))

    waits = {"learner_wait_share": 0.0, "actor_wait_share": 0.5}
    busy = told(cores_busy_share=0.97, **waits)
    assert "learner (learner waits 0%, actors wait 50%, cores busy 97%)" in busy
    assert "its cores are all busy" in busy
    assert "more actors would not" in told(cores_busy_share=0.6, **waits)
    assert "more --env_threads" in told(cores_busy_share=0.6)
    assert "--env_threads" not in summary(
        figures(cores_busy_share=0.6) | RUN | {"job_name": "learner"}, "done", Path("x")
    )


def test_the_summary_of_several_learners_tells_of_their_waiting_for_one_another():
    waits = {"learner_wait_share": 0.1, "actor_wait_share": 0.1, "team_wait_share": 0.5}
    text = summary(figures(cores_busy_share=0.5, **waits) | RUN, "done", Path("x"))
    assert (
        "other learners (learner waits 10%, actors wait 10%, waits for other learners 50%" in text
    )
    assert "learners wait for the slowest of them" in text
    assert "the first learner was busy 90% of the time" in text


def test_commands_in_the_summary_can_be_pasted():
    text = summary(figures() | RUN, "done", Path("my logs/pong"))
    assert "tensorboard --logdir 'my logs/pong'" in text
    assert "'--logdir=my logs/pong' --level_name=Pong" in text


def test_the_summary_names_levels():
    text = summary(of_levels() | RUN, "SIGINT", Path("logs/three"))
    assert [level for level in LEVELS if f" {level} " in text or f"{level} –" in text] == LEVELS


@pytest.mark.parametrize(
    ("actors", "learner_waits", "actors_wait", "words"),
    [
        (4, 0.75, 0.0, "about 16 actors"),
        (4, 0.0, 0.5, "about 2 actors"),
        (1, 0.0, 0.9, "with 1 actor: it could carry 1 actor"),
        (2.53, 0.5, 0.0, "with 2.5 actors: it could carry about 5 actors"),
        (4, 0.999, 0.0, "hardly busy"),
    ],
)
def test_the_summary_estimates_how_many_actors_a_learner_carries(
    actors, learner_waits, actors_wait, words
):
    waits = {"learner_wait_share": learner_waits, "actor_wait_share": actors_wait}
    assert words in summary(figures(**waits) | RUN | {"num_actors": actors}, "done", Path("x"))


def test_a_run_that_was_stopped_before_its_first_report_has_a_summary(tmp_path, capsys):
    nothing = {"environment_frames": 0, "wall_time": 1.0, "mean_episode_return": None}
    with Reporter(tmp_path, settings_of(tmp_path), ABOUT) as reporter:
        reporter.finish(nothing, "SIGINT")
    said = capsys.readouterr().out
    assert "Ended: SIGINT." in said and "mean raw return  –" in said
    assert (tmp_path / "learning_curve.png").exists()
