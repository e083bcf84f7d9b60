"""Further reporters: what they get, and that they never disturb a training."""

import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.test_api import small
from trainer import UserError, train
from trainer.reporting.reporters import ReporterThread, ReporterThreads, load
from trainer.storage.records import METRICS, read_metrics

ME = __name__


class Remembering:
    """Keeps what it gets."""

    made: list["Remembering"] = []

    def __init__(self, folder: Path, settings: dict[str, Any]):
        self.folder, self.settings = folder, settings
        self.reports: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        Remembering.made.append(self)

    def report(self, figures: dict[str, Any]) -> None:
        self.reports.append(figures)

    def finish(self, summary: dict[str, Any]) -> None:
        self.summary = summary


class Failing(Remembering):
    """Fails at every report."""

    def report(self, figures: dict[str, Any]) -> None:
        raise ConnectionError("no\nserver.")


class Unmakeable(Remembering):
    """Cannot even be made."""

    def __init__(self, folder: Path, settings: dict[str, Any]):
        raise PermissionError("no login")


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """This module by its name, which pytest has imported in its own way."""
    monkeypatch.setitem(sys.modules, "my_reporters", sys.modules[ME])
    monkeypatch.setattr(Remembering, "made", [])


def test_a_reporter_gets_the_runs_settings_all_reports_and_its_end(tmp_path):
    outcome = train(small(tmp_path, reporters="my_reporters:Remembering"))
    [reporter] = Remembering.made
    assert reporter.folder == tmp_path
    assert reporter.settings["batch_size"] == 4
    assert reporter.settings["agent_name"] == "VectorAgent"
    assert reporter.reports == read_metrics(tmp_path)
    assert reporter.summary["reason"] == outcome.reason
    assert reporter.summary["best_return"] == outcome.best_return
    assert reporter.summary["frames_per_second"] == outcome.figures["frames_per_second"]


def test_several_reporters_do_not_disturb_one_another_or_the_training(tmp_path, capsys):
    names = ["Failing", "Unmakeable", "Remembering"]
    outcome = train(small(tmp_path, reporters=",".join(f"my_reporters:{one}" for one in names)))
    assert outcome.reason == "all frames are played"
    [whole] = [one for one in Remembering.made if type(one) is Remembering]
    assert whole.reports == read_metrics(tmp_path) and whole.summary
    warnings = [line for line in capsys.readouterr().out.splitlines() if "warning" in line]
    assert sorted(warnings) == [
        "warning: --reporters=my_reporters:Failing: ConnectionError: no server. "
        "Training is not affected.",
        "warning: --reporters=my_reporters:Unmakeable: PermissionError: no login. "
        "Training is not affected.",
    ]
    assert "no login" in (tmp_path / "train.log").read_text()


def test_a_reporter_learns_of_an_error_that_ended_the_run(tmp_path):
    def broken(figures: dict[str, Any]) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError):
        train(small(tmp_path, reporters="my_reporters:Remembering"), broken)
    [reporter] = Remembering.made
    assert reporter.summary == {"reason": "an error", "error": "ZeroDivisionError: mine"}


def test_a_run_without_a_report_makes_no_reporter(tmp_path):
    train(small(tmp_path))
    again = train(small(tmp_path, reporters="my_reporters:Remembering"))
    assert again.reason == "already trained" and not Remembering.made


def test_the_end_of_a_run_that_was_killed_before_its_last_report_is_told_at_the_next_start(
    tmp_path,
):
    train(small(tmp_path))
    lines = (tmp_path / METRICS).read_bytes().splitlines(keepends=True)
    (tmp_path / METRICS).write_bytes(b"".join(lines[:-1]))
    train(small(tmp_path, reporters="my_reporters:Remembering"))
    [reporter] = Remembering.made
    assert reporter.reports == read_metrics(tmp_path)[-1:]
    assert reporter.summary["reason"] == "already trained"


def test_a_reporter_that_hangs_is_left_behind():
    hanging = threading.Event()

    class Hanging(Remembering):
        def report(self, figures: dict[str, Any]) -> None:
            hanging.wait()

    thread = ReporterThread("hanging", lambda: Hanging(Path("."), {}))
    for number in range(2000):
        thread.report({"environment_frames": number})
    assert thread.problem == "it is too slow, and some reports are left out"
    thread.finish({"reason": "all frames are played"})
    thread.wait(time.monotonic(), 0.01)
    hanging.set()


class Held(Remembering):
    """Finishes when it may."""

    may = threading.Event()

    def finish(self, summary: dict[str, Any]) -> None:
        self.may.wait()


class Busy(Held):
    """Takes no report before that."""

    def report(self, figures: dict[str, Any]) -> None:
        self.may.wait()


class Releasing(Held):
    """Lets the others finish."""

    def finish(self, summary: dict[str, Any]) -> None:
        self.may.set()


def test_all_know_of_the_end_before_any_is_waited_for(monkeypatch):
    monkeypatch.setattr(Held, "may", threading.Event())
    names = ",".join(f"my_reporters:{one}" for one in ("Busy", "Held", "Releasing"))
    all_of_them = ReporterThreads(names, Path("."), {})
    all_of_them.report({"environment_frames": 0})
    busy, *_ = all_of_them._running
    while not busy.problem:
        busy.report({"environment_frames": 1})
    all_of_them.finish({"reason": "all frames are played"})
    assert [line.split(": ")[2] for line in all_of_them.new_warnings()] == [
        "it is too slow, and some reports are left out. Training is not affected."
    ]


def test_those_that_do_not_finish_are_reported_and_share_the_time_for_it(monkeypatch):
    monkeypatch.setattr(Held, "may", threading.Event())
    waited, wait = list[float](), ReporterThread.wait

    def noted(one: ReporterThread, until: float, within_s: float) -> None:
        waited.append(until)
        wait(one, until, within_s)

    monkeypatch.setattr(ReporterThread, "wait", noted)
    all_of_them = ReporterThreads("my_reporters:Held,my_reporters:Busy", Path("."), {})
    all_of_them.report({"environment_frames": 0})
    all_of_them.finish({"reason": "all frames are played"}, within_s=0.01)
    assert len(waited) == 2 and len(set(waited)) == 1
    assert [line.split(": ")[2] for line in all_of_them.new_warnings()] == 2 * [
        "it has not finished within 0.01 s. Training is not affected."
    ]
    Held.may.set()


def test_a_second_end_is_not_passed_on():
    all_of_them = ReporterThreads("my_reporters:Remembering", Path("."), {})
    all_of_them.report({"environment_frames": 1})
    all_of_them.finish({"reason": "first"})
    all_of_them.finish({"reason": "second"})
    assert Remembering.made[0].summary == {"reason": "first"}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("wandbb", ["--reporters=wandbb is not known", "Did you mean wandb"]),
        ("nowhere:Nothing", ["--reporters=nowhere:Nothing", "No module named 'nowhere'"]),
        ("my_reporters:Nothing", ["has no attribute 'Nothing'"]),
        ("pathlib:Path", ["pathlib:Path has no method report and no finish"]),
    ],
)
def test_a_reporter_that_is_none_is_refused_before_anything_is_written(names, words, tmp_path):
    with pytest.raises(UserError) as error:
        train(small(tmp_path / "run", reporters=names))
    for word in words:
        assert word in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_mistake_in_a_reporter_s_file_is_reported_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "broken_reporter.py").write_text("size = width")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"Mine: cannot be imported \(name 'width' is not def"):
        load("broken_reporter:Mine")


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_known_reporter_that_is_not_installed_is_answered_with_the_command(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"trainer.reporting.reporters.{name}_reporter", False)
    with pytest.raises(UserError, match="bin/setup --extra=trackers"):
        load(name)


class FakeRun:
    """A run of wandb that keeps what it gets: each step's figures until there is a later step."""

    id = "abc"

    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []
        self.axes: dict[str, str | None] = {}
        self.summary: dict[str, Any] = {}
        self.exit_code = -1
        self._step = 0

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes[name] = step_metric

    def log(self, figures: dict[str, Any], step: int | None = None) -> None:
        step = self._step + 1 if step is None else step
        if step >= self._step:
            self._step = step
            self.logged.append(figures)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


def test_weights_and_biases_gets_a_run_of_its_own_and_resumes_it(tmp_path, monkeypatch):
    runs: list[tuple[dict[str, Any], FakeRun]] = []

    def init(**options: Any) -> FakeRun:
        runs.append((options, FakeRun()))
        return runs[-1][1]

    fake: Any = ModuleType("wandb")
    fake.init, fake.Settings, fake.login = init, dict, lambda **_: False
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delitem(sys.modules, "trainer.reporting.reporters.wandb_reporter", False)
    monkeypatch.delenv("WANDB_MODE", False)
    make = load("wandb")["wandb"]
    first = make(tmp_path, {"seed": 1})
    first.report({"environment_frames": 10, "entropy": 0.5, "mean_episode_return": None})
    first.finish({"reason": "SIGINT"})
    options, run = runs[0]
    assert (options["id"], options["mode"], options["config"]) == (None, "offline", {"seed": 1})
    assert run.logged == [{"environment_frames": 10, "entropy": 0.5}]
    assert run.axes["*"] == "environment_frames"
    assert run.summary == {"end/reason": "SIGINT"} and run.exit_code == 0
    second = make(tmp_path, {})
    for frames in (20, 12):  # as after a resume from an older checkpoint
        second.report({"environment_frames": frames})
    second.finish({"reason": "an error", "error": "x"})
    options, run = runs[1]
    assert [one["environment_frames"] for one in run.logged] == [20, 12]
    assert (options["id"], options["resume"]) == ("abc", "allow")
    assert run.exit_code == 1
