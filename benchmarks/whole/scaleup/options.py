"""The benchmark's own flags; those of training and of reaching hosts come with them."""

import argparse
import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import flags
from algorithms import registry
from algorithms.feeding import Gradients
from benchmarks.tools import common
from cluster import options as frontend
from environments import names
from flags import setting
from trainer.settings import checks, config
from trainer.settings.config import Settings
from user_error import UserError

# Of the frontend's flags, those that reach hosts; the rest is the benchmark's to decide.
REACHING = ("workers_csv_path", "mpirun_network", "accept_new_host_keys", "ssh_password_env",
            "ask_ssh_password", "connect_timeout_s", "patience_s", "start_timeout_s",
            "ssh_config")  # fmt: skip
# What the benchmark decides for each process.
DECIDED = (*frontend.DECIDED, "logdir", "total_environment_frames", "stop_after_s",
           "synthetic_unrolls", "seed")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options(common.Options):
    """What is measured, and how often."""

    learners: str = setting("1,2", "Measuring", "numbers of learners, with commas between")
    actors: str = setting(
        "0", "Measuring", "numbers of actors of each learner; 0: learners make up their unrolls"
    )
    # Larger than the trainer's own: scaling up is for large updates.
    batch_size: int = setting(32, "Measuring", "unrolls in a learner's update", least=1)
    unroll_length: int = setting(20, "Measuring", "agent steps in an unroll", least=1)
    repeats: int = setting(3, "Measuring", "turns: times that each case is measured", least=1)
    windows: int = setting(4, "Measuring", "pieces of a measurement; their median counts", least=1)
    window_s: float = setting(5.0, "Measuring", "seconds of a piece", above=0)
    warm_up: int = setting(2, "Measuring", "pieces before the first that counts", least=1)


class Chosen(NamedTuple):
    """A parsed command line."""

    options: Options
    hosts: frontend.Options
    settings: Settings
    learners: list[int]
    actors: list[int]


def parse(arguments: Sequence[str]) -> Chosen:
    """Flags as values; ``UserError`` says what is wrong with one."""
    algorithm = config.algorithm_in(arguments)
    values = flags.parse(make_parser(algorithm), arguments)

    def made(kind: Any, own: Collection[str]) -> Any:
        one = kind(**{name: value for name, value in values.items() if name in own})
        flags.check_ranges(one)
        return one

    options = made(Options, [field.name for field in dataclasses.fields(Options)])
    # A learner alone is a case of its own: the others are measured against it.
    learners = sorted({1, *common.numbers("learners", options.learners)})
    actors = sorted(set(common.numbers("actors", options.actors, least=0)))
    training = [field.name for field in config.fields(algorithm)]
    settings = Settings(**{name: values[name] for name in training if name in values})
    checks.check_started(settings)
    for level in settings.level.levels:
        names.find(level)
    chosen = Chosen(options, made(frontend.Options, REACHING), settings, learners, actors)
    _check(chosen)
    return chosen


def _check(chosen: Chosen) -> None:
    """Refuses what processes could not be started with."""
    settings = chosen.settings
    if settings.remote.transport == "secure":
        raise UserError(
            "--transport=secure: the benchmark gives its processes no credentials. Leave it out; "
            "python -m benchmarks transport measures both."
        )
    for actors in chosen.actors:
        checks.check_played(settings, range(actors), f"--actors={actors}")
    exchange = isinstance(settings.algorithm.feeding, Gradients)
    if exchange and max(chosen.learners) > 1 and not chosen.hosts.workers_csv_path:
        raise UserError(
            f"--learners={chosen.options.learners}: on this machine learners train together under "
            f"mpirun, and those of --algorithm={settings.program.algorithm} exchange gradients "
            "without it. Give --learners=1, or --workers_csv_path with a CSV of hosts."
        )


def make_parser(algorithm: str = registry.DEFAULT) -> argparse.ArgumentParser:
    """The command line."""
    reaching = [one for one in dataclasses.fields(frontend.Options) if one.name in REACHING]
    own = dataclasses.fields(Options)
    decided = {*DECIDED, *[one.name for one in own]}
    training = [one for one in config.fields(algorithm) if one.name not in decided]
    return flags.parser_of(
        [*own, *reaching, *training],
        "python -m benchmarks scaleup",
        "Measure how throughput grows with learners and actors.",
        "",
    )
