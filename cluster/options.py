"""The frontend's own flags, defined once; those of training come from ``trainer.settings``."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

import flags
from flags import setting
from trainer.settings import config
from trainer.settings.config import Settings
from user_error import UserError

ACTIONS = ("start", "check", "sync", "restart", "status", "logs", "stop")

# What is for some actions only. With others it would be passed over, and a stop of one process
# that ends all of them, or one that was only to be shown, cannot be taken back.
FOR = {
    "dry_run": ("start", "check", "sync", "restart"),
    "follow": ("status", "logs"),
    "name": ("logs",),
}

# What the plan decides for each process, so that it is no flag of the whole cluster.
DECIDED = ("mode", "job_name", "task", "learner_host", "actor_hosts", "num_actors", "credentials")


@dataclasses.dataclass(frozen=True)
class Options:
    """What the frontend does, besides the settings that it passes on."""

    workers_csv_path: str = setting("", "Cluster", "CSV of the hosts: one learner or actor a row")
    action: str = setting("start", "Cluster", "what to do with the run", choices=ACTIONS)
    dry_run: bool = setting(
        False, "Cluster", "only show what would be started, as a table and as commands"
    )
    tmux_sess: str = setting(
        "impala", "Cluster", "tmux session whose windows show the run; empty: no tmux"
    )
    tensorboard: bool = setting(True, "Cluster", "run TensorBoard beside the first learner")
    mpirun_network: str = setting(
        "",
        "Cluster",
        "network that learners on several hosts share, such as 10.0.0.0/24; default: Open MPI's "
        "choice",
    )
    accept_new_host_keys: bool = setting(
        False, "Cluster", "add keys of hosts that known_hosts does not know; never changed ones"
    )
    ssh_password_env: str = setting(
        "", "Cluster", "environment variable with the password for hosts without one in the CSV"
    )
    ask_ssh_password: bool = setting(
        False, "Cluster", "ask for the password for hosts without one in the CSV"
    )
    connect_timeout_s: float = setting(
        10.0,
        "Cluster",
        "seconds that a host may take to answer, and to let one log in",
        above=0,
        most=3600,
    )
    allow_partial: bool = setting(
        False, "Cluster", "go on with what could be started instead of taking it down again"
    )
    restart_actors: int = setting(
        0, "Cluster", "times that an actor which failed is started again", least=0, most=10**6
    )
    restart_learners: int = setting(
        0, "Cluster", "times that learners which failed are started again", least=0, most=10**6
    )
    start_timeout_s: float = setting(
        300.0, "Cluster", "seconds that learners may take to open their ports", above=0
    )
    stop_grace_s: float = setting(
        15.0, "Cluster", "seconds from asking a process to end to killing it", least=0, most=3600
    )
    follow: bool = setting(False, "Cluster", "status, logs: go on showing what is new")
    name: str = setting("", "Cluster", "logs: only of this process, such as actor-0")


def parse(arguments: Sequence[str]) -> tuple[Options, Settings]:
    """Options and settings from a command line; ``UserError`` says what is wrong with a flag."""
    values = flags.parse(make_parser(), arguments)
    own = {field.name for field in dataclasses.fields(Options)}
    options = Options(**{name: value for name, value in values.items() if name in own})
    settings = Settings(**{name: value for name, value in values.items() if name not in own})
    flags.check_ranges(options)
    flags.check_ranges(settings)
    _check(options)
    return options, settings


def make_parser() -> argparse.ArgumentParser:
    """The frontend's command line: its own flags, then those of training."""
    passed_on = [field for field in config.fields() if field.name not in DECIDED]
    return flags.parser_of(
        [*dataclasses.fields(Options), *passed_on],
        "run_experiment_mm_raw.py",
        "Train on the hosts of a CSV: start a run, look at it, stop it.",
        EXAMPLES,
    )


EXAMPLES = """examples:
  python run_experiment_mm_raw.py --workers_csv_path=sandbox/local_workers_example.csv \\
    --level_name=BreakoutNoFrameskip-v4 --logdir=logs/breakout
  python run_experiment_mm_raw.py --workers_csv_path=hosts.csv --dry_run
  python run_experiment_mm_raw.py --logdir=logs/breakout --action=status --follow
  python run_experiment_mm_raw.py --logdir=logs/breakout --action=stop
"""


def _check(options: Options) -> None:
    if options.action in ("start", "check", "sync", "restart") and not options.workers_csv_path:
        raise UserError(
            "--workers_csv_path is not given: name the CSV of hosts, for example "
            "sandbox/local_workers_example.csv."
        )
    for flag, actions in FOR.items():
        if getattr(options, flag) and options.action not in actions:
            raise UserError(
                f"--{flag} is for --action={' or '.join(actions)}, not for "
                f"--action={options.action}: leave it out."
            )
    # What follows a # it would look up, or even run.
    if any(letter in ".:#" or not letter.isprintable() for letter in options.tmux_sess):
        raise UserError(f"--tmux_sess={options.tmux_sess}: tmux allows no '.', ':' and '#' in it.")


def passed_on(settings: Settings, **changed: Any) -> list[str]:
    """The flags of a process: those given, but for what ``changed`` decides, and that."""
    kept = [
        flag
        for flag in config.to_flags(settings)
        if flag.partition("=")[0].removeprefix("--") not in (*DECIDED, *changed)
    ]
    return kept + [f"--{name}={value}" for name, value in changed.items()]
