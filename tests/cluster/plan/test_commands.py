"""The frontend's command line, and the commands that a plan shows and runs."""

import dataclasses
import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import run_experiment_mm_raw
from algorithms.settings import AlgorithmSettings
from cluster import frontend, options, show
from flags import setting
from tests.cluster.conftest import ROOT
from tests.cluster.plan.plans import plan, row
from trainer.settings import config
from user_error import UserError


def test_flags_reach_every_process_as_they_were_given():
    given = ["--level_name=A-v0", "--learning_rate=0.001", "--epsilon=1e-08"]
    made = plan([row("learner", "localhost", 8001), row("actor", "localhost", 9001)], *given)
    for process in made.processes[:2]:
        assert process.argv[2:5] == tuple(given)
        kept = [flag for flag in process.argv[2:] if flag.partition("=")[0] in
                {f"--{field.name}" for field in config.fields()} - {"--job_name"}]  # fmt: skip
        assert config.parse(kept).learning.learning_rate == 0.001


def test_commands_are_quoted_once_for_each_shell_and_hold_no_password():
    made = plan(
        [row("learner", "10.0.0.9", 8001),
         row("actor", "h", 9001, ssh_username="ann", ssh_password="hush", remote_dir="a b$(id)",
             env=(("A", "$(touch x);' &&  y"),))],
    )  # fmt: skip
    command = show.command(made.processes[1])
    *ssh, there = shlex.split(command)
    assert ssh == ["ssh", "-p", "22", "ann@h"]
    assert shlex.split(there)[:5] == [
        "cd", "a b$(id)", "&&", "A=$(touch x);' &&  y", "CUDA_VISIBLE_DEVICES=-1",
    ]  # fmt: skip
    assert "hush" not in "\n".join(show.commands(made)) + repr(made)


def test_what_is_pasted_goes_the_way_of_the_ssh_configuration_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    (tmp_path / "config").write_text("Host gpu1\n  HostName 10.0.0.1\n  User ann\n")
    (tmp_path / "hosts.csv").write_text("job,ip,tf_port\nlearner,gpu1,8001\n")
    monkeypatch.chdir(tmp_path)
    for given, way in (("config", f"-F {tmp_path}/config "), ("none", "-F none "), ("", "")):
        flags = ["--workers_csv_path=hosts.csv", "--dry_run", f"--ssh_config={given}"]
        assert frontend.run([*flags, "--level_name=CartPole-v1"]) == 0
        assert f"\nssh {way}-p 22 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--job_name=actor"], "--job_name is decided for each process"),
        (["--mode=test"], "--mode is decided for each process"),
        (["--workers_csv_path=x", "--num_actors", "3"], "--num_actors is decided for each process"),
        (["--workers_csv"], "Did you mean --workers_csv_path"),
        ([], "--workers_csv_path is not given"),
        (["--action=pause"], "invalid choice: 'pause'"),
        (["--workers_csv_path=x", "--stop_grace_s=-1"], "--stop_grace_s=-1.0: must be 0 or more"),
        (["--workers_csv_path=x", "--discounting=2"], "--discounting=2.0: must be 1 or less"),
        (["--workers_csv_path=x", "--tmux_sess=a:b"], "--tmux_sess=a:b"),
        (["--workers_csv_path=x", "--tmux_sess=#(id)"], "--tmux_sess=#(id)"),
        (["--workers_csv_path=x", "--connect_timeout_s=1e12"], "must be 3600 or less"),
        (["--action=stop", "--dry_run"], "--dry_run is for --action=start or check or sync or"),
        (["--action=stop", "--name=actor-0"], "--name is for --action=logs, not for --action=stop"),
        (["--workers_csv_path=x", "--follow"], "--follow is for --action=status or logs, not for"),
    ],
)
def test_a_wrong_flag_is_told(flags: list[str], told: str):
    with pytest.raises(UserError) as error:
        options.parse(flags)
    assert told in str(error.value)


def test_an_algorithm_of_ones_own_cannot_take_the_name_of_a_flag(monkeypatch: pytest.MonkeyPatch):
    field = ("action", float, setting(0.3, "Learning", "chance of a random action"))
    kind = dataclasses.make_dataclass("Own", [field], bases=(AlgorithmSettings,), frozen=True)
    monkeypatch.setattr(sys.modules[__name__], "Own", kind, raising=False)
    with pytest.raises(UserError, match="its setting action has a name of this program"):
        options.parse([f"--algorithm={__name__}:Own", "--action=status"])


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--video=a.gif"], "--video=a.gif is for --mode=test"),
        (["--agent_name=VectrAgent"], "Did you mean VectorAgent"),
        (["--watch"], "--watch is for a training on this machine"),
        (["--algorithm=ppo", "--publish_every_updates=3"], "--publish_every_updates=3: with"),
        (["--algorithm=simple"], "--algorithm=simple is a program of trainings on one machine"),
    ],
)
def test_what_a_learner_would_refuse_is_refused_before_any_is_started(flags, told):
    rows = [row("learner", "localhost", 8001), row("actor", "localhost", 9001)]
    with pytest.raises(UserError) as error:
        plan(rows, *flags)
    assert told in str(error.value)


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "run_experiment_mm_raw.py", *flags]
    return subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_a_dry_run_shows_all_of_256_actors(tmp_path: Path):
    hosts = tmp_path / "hosts.csv"
    lines = ["job,ip,tf_port", "learner,10.0.0.1,8001", "learner,10.0.0.2,8001"]
    lines += [f"actor,10.0.{n // 8 + 1}.1,{9000 + n}" for n in range(256)]
    hosts.write_text("\n".join(lines))
    done = run(f"--workers_csv_path={hosts}", "--dry_run")
    assert done.returncode == 0 and "actor-255" in done.stdout


def test_help_answers_and_nothing_imports_tensorflow():
    assert "--workers_csv_path" in run("--help").stdout
    files = (ROOT / "cluster").rglob("[a-z]*.py")
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    check = f"import {', '.join(modules)}, sys; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.call([sys.executable, "-c", check], cwd=ROOT) == 0


def test_problems_of_the_csv_are_lines_with_exit_code_2(tmp_path: Path):
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("job,ip,tf_port\nworker,h,1\nactor,h,x\n")
    done = run(f"--workers_csv_path={hosts}", "--dry_run")
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 2


def test_what_cannot_be_written_is_one_line(monkeypatch, capsys):
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "records/stopped")

    monkeypatch.setattr(frontend, "run", full)
    assert run_experiment_mm_raw.main([]) == 2
    said = capsys.readouterr().err
    assert said.endswith(": records/stopped: No space left on device.\n")
    assert said.count("\n") == 1
