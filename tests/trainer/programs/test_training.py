"""Whole trainings, most of them as processes: run to their end, killed, asked to stop, and in
conflict."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import experiment
from tests.trainer.launching import (
    REPOSITORY,
    contents,
    ended,
    newest,
    run,
    small,
    start,
    store,
    wait_for,
)
from tests.trainer.levels import HANGS_FILE, Breaks, BreaksAtOnce, Hangs, Steps, Tens, level
from trainer.programs import local
from trainer.programs.local_actors import ActorFailed
from trainer.reporting.wording import FIRST_UPDATE
from trainer.settings.config import Settings
from trainer.storage.records import METRICS, read_metrics
from user_error import NotWritten

FRAMES = 12_000
REQUIRED = {
    "environment_frames",
    "agent_steps",
    "frames_per_second",
    "mean_episode_return",
    "policy_lag",
    "learner_wait_share",
    "total_loss",
    "entropy",
    "baseline_spread",
    "gradient_norm",
    "wall_time",
}


def for_frames(frames: int) -> str:
    return f"--total_environment_frames={frames}"


def returns_in(summary: str) -> str:
    """The summary's line of returns."""
    (line,) = [line for line in summary.splitlines() if line.strip().startswith("mean raw return")]
    return line


def one_line(text: str) -> str:
    assert text.count("\n") == 1 and text.startswith("experiment.py: "), text
    return text


@pytest.fixture
def run_here(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs a training in this process, without a process's start: its exit code and output."""
    # TensorFlow's threads cannot change any more.
    monkeypatch.setattr(local.cores, "divide", lambda **_: 1)

    def run_it(*flags: str, **options: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return experiment.main(small(*flags, **options)), *capsys.readouterr()

    return run_it


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A finished training, and its output."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, run(f"--logdir={folder}", for_frames(FRAMES))


@pytest.mark.xdist_group("trained run")
def test_a_training_runs_to_its_end_and_leaves_all_its_records(trained):
    folder, process = trained
    assert (process.returncode, process.stderr) == (0, "")
    assert "Ended: all frames are played." in process.stdout
    names = {path.name for path in folder.iterdir()}
    assert names > {METRICS, "settings.json", "checkpoints", "learning_curve.png", "train.log"}
    assert any(name.startswith("events.out.tfevents") for name in names)
    rows = read_metrics(folder)
    assert len(rows) >= 2
    for row in rows:
        assert row.keys() >= REQUIRED
    for before, after in zip(rows, rows[1:], strict=False):
        assert before["environment_frames"] < after["environment_frames"]
        assert before["wall_time"] < after["wall_time"]
    assert FRAMES <= rows[-1]["environment_frames"] < FRAMES + 4 * 20
    assert json.loads((folder / "settings.json").read_text())["agent_name"] == "VectorAgent"
    assert newest(folder).counters["environment_frames"] == rows[-1]["environment_frames"]


@pytest.mark.xdist_group("trained run")
def test_a_trained_run_is_reported_as_such_whatever_the_settings_and_stays_as_it_is(
    trained, run_here
):
    folder = trained[0]
    before = contents(folder)
    flags = f"--logdir={folder}", for_frames(FRAMES), "--learning_rate=0.5"
    learner = run(*flags, "--job_name=learner")  # a process: it may be one of a team's
    for code, output, errors in (
        run_here(*flags),
        (learner.returncode, learner.stdout, learner.stderr),
    ):
        assert (code, errors) == (0, "")
        assert "is already trained" in output and "Ended" not in output
    after = contents(folder)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed <= {".lock", "train.log"}


def test_a_killed_training_resumes_from_its_last_checkpoint(tmp_path):
    often = [f"--logdir={tmp_path}", "--checkpoint_every_s=0.3", "--nopopart", "--unroll_length=20"]
    often.append("--replay_share=0")
    process = start(*often, for_frames(10**9))
    wait_for(lambda: len(store(tmp_path).numbered()) >= 2, process)
    process.send_signal(signal.SIGSTOP)  # it still holds the folder's lock
    busy = run(f"--logdir={tmp_path}")
    assert busy.returncode == 2
    assert f"{tmp_path} is in use by another training (process {process.pid} on" in one_line(
        busy.stderr
    )
    process.kill()
    ended(process)
    killed_at = newest(tmp_path).counters
    frames, updates = killed_at["environment_frames"], killed_at["updates"]
    rows_before = len((tmp_path / METRICS).read_text().splitlines())

    total = frames + 8000
    resumed = run(*often, for_frames(total))
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert f"Resuming from {tmp_path}/checkpoints/" in resumed.stdout
    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    added = lines[rows_before:]
    assert len(added) >= 1 and added[0]["environment_frames"] > frames
    for row in added:
        # The rate depends on the frames before the update, which has up to 80; resets are none.
        left = 1 - (row["environment_frames"] - 80) / total
        rate = Settings().learning.learning_rate
        assert rate * (left - 80 / total) <= row["learning_rate"] <= rate * left * 1.001
        assert row["wall_time"] > killed_at["wall_time"]
    kept = newest(tmp_path)
    assert updates + 100 <= kept.counters["updates"] <= updates + 120
    assert kept.counters["environment_frames"] <= 80 * kept.counters["updates"]
    # The powers of Adam's decays count all updates.
    assert kept.optimizer["powers"][1] == pytest.approx(0.999 ** kept.counters["updates"], rel=1e-2)


# test_cluster.py stops learners by SIGTERM.
@pytest.mark.parametrize(
    "asked",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.extras), signal.SIGHUP],
)
def test_a_stopped_training_saves_and_reports_its_progress(tmp_path, asked):
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    process = start(f"--logdir={tmp_path}", for_frames(10**9))
    signal.signal(signal.SIGHUP, before)
    wait_for(lambda: read_metrics(tmp_path), process)
    process.send_signal(asked)
    stopped = ended(process)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert f"Ended: {asked.name}." in stopped.stdout
    counters = newest(tmp_path).counters
    assert counters["environment_frames"] == read_metrics(tmp_path)[-1]["environment_frames"] > 0
    assert (tmp_path / "learning_curve.png").exists()


# Whatever its job, a process imports TensorFlow before anything else.
JOBS = ["local", *(pytest.param(job, marks=pytest.mark.extras) for job in ("learner", "actor"))]


def signalled_early(job: str, folder: Path, number: int) -> subprocess.CompletedProcess[str]:
    """A process that got a signal during its imports."""
    process = start(f"--logdir={folder / 'run'}", f"--job_name={job}")
    maps = Path(f"/proc/{process.pid}/maps")
    wait_for(lambda: "tensorflow" in maps.read_text(), process)
    process.send_signal(number)
    return ended(process)


@pytest.mark.parametrize("job", JOBS)
def test_ctrl_c_during_startup_ends_the_process_silently(tmp_path, job):
    stopped = signalled_early(job, tmp_path, signal.SIGINT)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (-signal.SIGINT, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("job", JOBS)
def test_sigterm_during_startup_ends_the_process_with_one_line(tmp_path, job):
    stopped = signalled_early(job, tmp_path, signal.SIGTERM)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout == "Ended: SIGTERM. There was nothing to save.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_second_signal_ends_the_process_at_once(tmp_path):
    flags = [f"--logdir={tmp_path}", for_frames(10**9), "--num_actors=1"]
    log, hangs = tmp_path / "train.log", tmp_path / "hangs"
    process = start(*flags, level=level(Hangs), env=os.environ | {HANGS_FILE: str(hangs)})
    # Not for a report: a fast machine may finish before the first one is due.
    wait_for(lambda: log.exists() and FIRST_UPDATE in log.read_text(), process)
    wait_for(hangs.exists, process)
    process.send_signal(signal.SIGINT)
    wait_for(lambda: "Ended: SIGINT" in log.read_text(), process)
    assert newest(tmp_path).counters["environment_frames"] > 0
    assert process.poll() is None  # it waits for an environment that does not return
    process.send_signal(signal.SIGINT)
    assert ended(process).returncode == -signal.SIGINT


def test_ctrl_c_while_python_winds_up_prints_nothing():
    code = (
        "import os, signal; from trainer.programs.stopping import end_silently; "
        "end_silently(); os.kill(os.getpid(), signal.SIGINT)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_an_error_in_an_environment_ends_the_training_with_a_checkpoint(tmp_path):
    process = run(f"--logdir={tmp_path}", for_frames(10**9), "--num_actors=2", level=level(Breaks))
    assert process.returncode == 1
    error = process.stderr.splitlines()[-1]
    assert "ActorFailed: actor " in error and level(Breaks) in error
    assert "ZeroDivisionError: the simulator fell over" in error
    assert 'raise ZeroDivisionError("the simulator fell over")' in process.stderr
    assert "Ended by an error: actor " in (tmp_path / "train.log").read_text()
    assert newest(tmp_path).counters["environment_frames"] > 0


def test_an_error_before_the_first_update_leaves_nothing_that_a_mended_level_must_fit(
    tmp_path, run_here
):
    with pytest.raises(ActorFailed, match="ZeroDivisionError: the simulator fell over"):
        run_here(f"--logdir={tmp_path}", for_frames(10**9), level=level(BreaksAtOnce))
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.xdist_group("trained run")
def test_on_a_full_disk_only_the_new_checkpoints_are_lost(trained, tmp_path):
    folder = Path(shutil.copytree(trained[0], tmp_path / "run"))
    before = {path.name: path.read_bytes() for path in store(folder).numbered()}

    def no_large_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))

    process = run(
        f"--logdir={folder}",
        for_frames(2 * FRAMES),
        "--checkpoint_every_s=0.5",
        preexec_fn=no_large_files,
    )
    assert process.stdout.count("warning: a checkpoint could not be written") >= 2
    assert "Ended: all frames are played." in process.stdout  # it continued to the end
    assert process.returncode == NotWritten.code
    assert "the last checkpoint could not be written" in one_line(process.stderr)
    assert {path.name: path.read_bytes() for path in store(folder).numbered()} == before
    assert not list(folder.rglob("*.tmp"))


def test_output_to_a_full_disk_does_not_change_the_exit_code(tmp_path):
    flags, buffered = [f"--logdir={tmp_path}", for_frames(1000)], {**os.environ}
    buffered.pop("PYTHONUNBUFFERED", None)
    with open("/dev/full", "w") as full:
        process = run(*flags, level=level(Steps), stdout=full, env=buffered)
    assert (process.returncode, process.stderr) == (0, "")
    assert newest(tmp_path).counters["environment_frames"] >= 1000


@pytest.mark.xdist_group("trained run")
def test_a_refused_resume_prints_one_line_and_leaves_the_folder_unchanged(trained, run_here):
    folder = trained[0]
    before = contents(folder)
    code, output, errors = run_here(
        f"--logdir={folder}", for_frames(2 * FRAMES), "--optimizer=rmsprop"
    )
    assert (code, output) == (2, "")
    assert "--optimizer=rmsprop does not fit the run in" in one_line(errors)
    after = contents(folder)
    # Except for the last holder.
    assert f"process {os.getpid()} on" in after.pop(".lock").decode()
    del before[".lock"]
    assert before == after


def test_resuming_with_another_level_prints_a_warning(tmp_path, run_here):
    folder = f"--logdir={tmp_path}"
    assert run_here(folder, for_frames(1000), level=level(Tens))[0] == 0
    code, output, errors = run_here(folder, for_frames(2000), level=level(Steps))
    assert code == 0, errors
    assert f"and continues with --level_name={level(Steps)}" in output
    assert "--total_environment_frames was 1,000 and is 2,000 now: the learning" in output
    # Nothing of the old level's returns is left in the mean, and its best checkpoint is kept.
    rows = read_metrics(tmp_path)
    assert {row["mean_episode_return"] for row in rows} == {7.0, 30.0}
    assert rows[-1]["mean_episode_return"] == 7.0
    assert "7.000, at best 7.000" in returns_in(output)
    _, output, _ = run_here(folder, for_frames(3000), level=level(Steps))
    assert "7.000, at best 7.000" in returns_in(output)
    names = sorted(path.name for path in (tmp_path / "checkpoints").glob("best*"))
    assert len(names) == 2 and names[0].startswith("best-until-")


def test_a_python_without_tensorflow_is_referred_to_bin_train(tmp_path):
    bare = [sys.executable, "-S", str(REPOSITORY / "experiment.py"), "--logdir=run"]
    done = subprocess.run(bare, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "") and os.listdir(tmp_path) == []
    assert "has no TensorFlow. Run bin/train" in one_line(done.stderr)


def test_a_mistake_prints_one_line_and_creates_nothing(tmp_path):
    folder = tmp_path / "not" / "made"
    process = run(f"--logdir={folder}", level="CartPol-v1")
    assert (process.returncode, process.stdout) == (2, "")
    assert "CartPol-v1" in one_line(process.stderr) and "CartPole-v1" in process.stderr
    assert os.listdir(tmp_path) == []
