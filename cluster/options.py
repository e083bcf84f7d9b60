"""The frontend's own flags, defined once; those of training come from ``trainer.settings``."""

import argparse
import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import flags
from algorithms import registry
from flags import setting
from trainer.machine.launching import script_name
from trainer.settings import checks, config, sources
from trainer.settings.config import Settings
from user_error import UserError

BACKENDS = ("ssh", "slurm", "kubernetes")
ACTIONS = (
    "start",
    "check",
    "sync",
    "restart",
    "status",
    "logs",
    "stop",
    "fetch",
    "add",
    "remove",
)

# Flags for some actions only. Others would ignore them: an --action=stop that was meant as a
# dry run, or for one process only, would end everything, which cannot be undone.
FOR = {
    "dry_run": ("start", "check", "sync", "restart", "add", "remove"),
    "follow": ("status", "logs"),
    "json": ("status",),
    "name": ("logs",),
    "hosts": ("remove",),
    "fetch": ("fetch",),
}

# Flags for some backends only: others would ignore them.
OF_OTHERS = ("slurm", "kubernetes")
OF_HOSTS = ("ssh", "slurm")
OF = {
    "learners": OF_OTHERS,
    "actors": OF_OTHERS,
    "learner_resources": OF_OTHERS,
    "actor_resources": OF_OTHERS,
    "one_job": ("slurm",),
    "container": ("slurm",),
    "namespace": ("kubernetes",),
    "kube_context": ("kubernetes",),
    "learner_image": ("kubernetes",),
    "actor_image": ("kubernetes",),
    "storage": ("kubernetes",),
    "storage_class": ("kubernetes",),
    "tmux_sess": ("ssh",),
    "tensorboard": ("ssh",),
    "mpirun_network": OF_HOSTS,
    "accept_new_host_keys": ("ssh",),
    "ssh_config": ("ssh",),
    "ssh_password_env": ("ssh",),
    "ask_ssh_password": ("ssh",),
    "connect_timeout_s": ("ssh",),
    "log_megabytes": OF_HOSTS,
}

# Decided by the plan for each process, so not flags of the whole cluster.
DECIDED = (
    "mode",
    "job_name",
    "task",
    "learner_host",
    "actor_hosts",
    "peers",
    "num_actors",
    "actors_on_host",
    "credentials",
    "agent",
)


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of the frontend itself; it passes on the others."""

    workers_csv_path: str = setting(
        "", "Cluster", "CSV of the hosts: one learner, actor or remote a row"
    )
    backend: str = setting(
        "ssh",
        "Cluster",
        "what starts the processes. ssh: hosts of your own; slurm: nodes that Slurm lends; "
        "kubernetes: pods",
        choices=BACKENDS,
    )
    action: str = setting("start", "Cluster", "what to do with the run", choices=ACTIONS)
    learners: int = setting(
        0,
        "Cluster",
        "number of learners, where no CSV lists them; not for ssh",
        least=0,
        most=1024,
    )
    actors: int = setting(
        0,
        "Cluster",
        "number of actors, where no CSV lists them; not for ssh",
        least=0,
        most=10**5,
    )
    learner_resources: str = setting(
        "",
        "Cluster",
        "slurm: options of sbatch for the learners' job, such as --partition=gpu "
        "--gpus-per-task=1; kubernetes: what each learner's pod asks for, such as cpu=8 "
        "nvidia.com/gpu=1 node:pool=gpu",
    )
    actor_resources: str = setting(
        "",
        "Cluster",
        "slurm: options of sbatch for each actor, such as --cpus-per-task=4; kubernetes: what each "
        "actor's pod asks for, such as cpu=2 memory=2Gi tolerate:spot=true",
    )
    one_job: bool = setting(
        False, "Cluster", "slurm: all in one heterogeneous job, which starts and ends as a whole"
    )
    container: str = setting(
        "",
        "Cluster",
        "slurm: folder of an OCI bundle, made from this project's images, in which jobs run; the "
        "site needs an oci.conf. Its path to this folder and to Python must be as outside",
    )
    namespace: str = setting(
        "", "Cluster", "kubernetes: the namespace; default: that of your configuration"
    )
    kube_context: str = setting(
        "", "Cluster", "kubernetes: the context of your configuration; default: the current one"
    )
    learner_image: str = setting("impala-learner", "Cluster", "kubernetes: the learners' image")
    actor_image: str = setting("impala-actor", "Cluster", "kubernetes: the actors' image")
    storage: str = setting("10Gi", "Cluster", "kubernetes: size of the volume for the run's folder")
    storage_class: str = setting(
        "", "Cluster", "kubernetes: class of that volume; default: the cluster's"
    )
    dry_run: bool = setting(
        False, "Cluster", "only show what would be started: a table, commands, scripts or manifests"
    )
    tmux_sess: str = setting(
        "impala", "Cluster", "ssh: tmux session whose windows show the run; empty: no tmux"
    )
    tensorboard: bool = setting(True, "Cluster", "ssh: run TensorBoard beside the first learner")
    mpirun_network: str = setting(
        "",
        "Cluster",
        "ssh, slurm: network that learners on several hosts share, such as 10.0.0.0/24; default: "
        "Open MPI's choice",
    )
    accept_new_host_keys: bool = setting(
        False,
        "Cluster",
        "ssh: add the keys of hosts that are not in known_hosts; never accept changed ones",
    )
    ssh_config: str = setting(
        "",
        "Cluster",
        "ssh: SSH configuration with names, ports, users, keys and jump hosts of hosts; default: "
        "~/.ssh/config, if there is one; none: no file",
    )
    ssh_password_env: str = setting(
        "",
        "Cluster",
        "ssh: environment variable with the password for hosts without one in the CSV",
    )
    ask_ssh_password: bool = setting(
        False, "Cluster", "ssh: ask for the password for hosts without one in the CSV"
    )
    connect_timeout_s: float = setting(
        10.0,
        "Cluster",
        "ssh: seconds that a host may take to answer, and to accept a login",
        above=0,
        most=3600,
    )
    patience_s: float = setting(
        60.0,
        "Cluster",
        "seconds for which a host that stalls or cannot be reached is asked again, so that it does "
        "not take a start down; not with --allow_partial",
        least=0,
        most=3600,
    )
    allow_partial: bool = setting(
        False, "Cluster", "keep what could be started instead of stopping it again"
    )
    restart_actors: int = setting(
        0, "Cluster", "how often a failed actor or remote is restarted", least=0, most=10**6
    )
    restart_learners: int = setting(
        0, "Cluster", "how often failed learners are restarted", least=0, most=10**6
    )
    start_timeout_s: float = setting(
        300.0, "Cluster", "seconds that learners may take to open their ports", above=0
    )
    stop_grace_s: float = setting(
        15.0,
        "Cluster",
        "seconds from asking a process to end to killing it; on kubernetes those of the start",
        least=0,
        most=3600,
    )
    log_megabytes: int = setting(
        100,
        "Cluster",
        "ssh, slurm: most that a process's log may take on its host; its oldest quarter is removed "
        "then; 0: no limit",
        least=0,
        most=10**6,
    )
    follow: bool = setting(False, "Cluster", "status, logs: keep showing what is new")
    json: bool = setting(
        False, "Cluster", "status: as JSON, for programs; with --follow, one line each time"
    )
    name: str = setting("", "Cluster", "logs: of this process only, such as actor-0")
    fetch: str = setting(
        "newest",
        "Cluster",
        "fetch: newest leaves out older checkpoints and what only the run itself needs to resume, "
        "such as replay's copy on disk",
        choices=("newest", "all"),
    )
    hosts: str = setting(
        "",
        "Cluster",
        "remove: the hosts whose actors are stopped, as column ip or --action=status names them, "
        "with commas between",
    )

    @property
    def log_bytes(self) -> int:
        """The most that a log may take; 0: no limit."""
        return self.log_megabytes * 10**6

    @property
    def patience(self) -> float:
        """How long to ask again; a partial start goes on without a host, and a check says so."""
        return 0.0 if self.allow_partial or self.action == "check" else self.patience_s


DEFAULTS = {field.name: field.default for field in dataclasses.fields(Options)}


def parse(arguments: Sequence[str]) -> tuple[Options, Settings]:
    """Options and settings from a command line; ``UserError`` says what is wrong with a flag."""
    # Resolved here: hosts need neither the file nor the preset. Settings that the plan decides may
    # be in a file, because settings.json of a run has them all.
    given = sources.given(arguments)
    _check_decided(given)
    algorithm, defaults = sources.read(arguments, _definitions, DECIDED)
    config.check_owner(arguments, algorithm, [field.name for field in dataclasses.fields(Options)])
    parsed = flags.parse(make_parser(algorithm), arguments, defaults)
    values = checks.without_unused(config.without_sources(parsed), given)
    own = {field.name for field in dataclasses.fields(Options)}
    options = Options(**{name: value for name, value in values.items() if name in own})
    settings = Settings(**{name: value for name, value in values.items() if name not in own})
    # Others use nodes and network, too. A file does not choose: settings.json of a run has all
    # settings, also those that nobody has chosen.
    if options.backend in OF_OTHERS and "transport" not in given:
        settings = settings.replace(transport="secure")
    flags.check_ranges(options)
    checks.check_ranges(settings)
    _check(options)
    return options, settings


def _check_decided(given: Collection[str]) -> None:
    """Refuses flags of single processes, which only look as if they were unknown."""
    for name in given:
        if name in DECIDED:
            raise UserError(
                f"--{name} is decided for each process by its row or its place in the run: leave "
                f"it out. A single process is started with {script_name('experiment.py')}."
            )


def make_parser(algorithm: str = registry.DEFAULT) -> argparse.ArgumentParser:
    """The frontend's command line: its own flags, then those of training."""
    own = dataclasses.fields(Options)
    passed_on = [field for field in config.flag_fields(algorithm) if field.name not in DECIDED]
    both = {field.name for field in own} & {field.name for field in passed_on}
    if both:
        raise UserError(
            f"--algorithm={algorithm}: its setting {min(both)} has a name of this program's flags; "
            "expected a name of its own. Rename it."
        )
    name = script_name(SCRIPT)
    return flags.parser_of(
        [*own, *passed_on],
        name,
        "Train on the hosts of a CSV: start a run, look at it, stop it.",
        EXAMPLES if name.endswith(".py") else EXAMPLES.replace(f"python {SCRIPT}", name),
    )


def _definitions(algorithm: str) -> list[dataclasses.Field]:
    """What a file may hold: flags of the frontend and settings of training."""
    return [*dataclasses.fields(Options), *config.fields(algorithm)]


SCRIPT = "run_experiment_mm_raw.py"
EXAMPLES = """examples:
  python run_experiment_mm_raw.py --workers_csv_path=sandbox/local_workers_example.csv \\
    --level_name=BreakoutNoFrameskip-v4 --logdir=logs/breakout
  python run_experiment_mm_raw.py --workers_csv_path=hosts.csv --dry_run
  python run_experiment_mm_raw.py --logdir=logs/breakout --action=status --follow
  python run_experiment_mm_raw.py --logdir=logs/breakout --action=stop
"""


def _check(options: Options) -> None:
    starts = options.action in ("start", "check", "sync", "restart")
    for flag, backends in OF.items():
        is_given = getattr(options, flag) != DEFAULTS[flag]
        if starts and options.backend not in backends and is_given:
            named = " or --backend=".join(backends)
            raise UserError(f"--{flag} is for --backend={named}: give that, too, or leave it out.")
    if starts and options.backend == "ssh" and not options.workers_csv_path:
        raise UserError(
            "--workers_csv_path is not given: name the CSV of hosts, for example "
            "sandbox/local_workers_example.csv."
        )
    for flag, actions in FOR.items():
        if getattr(options, flag) != DEFAULTS[flag] and options.action not in actions:
            raise UserError(
                f"--{flag} is for --action={' or '.join(actions)}, not for "
                f"--action={options.action}: leave it out."
            )
    if options.action == "remove" and not options.hosts:
        raise UserError("--hosts is not given: name the hosts whose actors are to be stopped.")
    # tmux would expand what follows a #, or even run it.
    if any(letter in ".:#" or not letter.isprintable() for letter in options.tmux_sess):
        raise UserError(
            f"--tmux_sess={options.tmux_sess}: tmux allows no '.', ':' or '#' in a name."
        )


def passed_on(settings: Settings, **changed: Any) -> list[str]:
    """The flags of a process: those given, with ``changed`` in place of its own."""
    kept = [
        flag
        for flag in config.to_flags(settings)
        if flag.partition("=")[0].removeprefix("--") not in (*DECIDED, *changed)
    ]
    return kept + [f"--{name}={value}" for name, value in changed.items()]
