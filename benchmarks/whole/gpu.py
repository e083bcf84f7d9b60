"""What a GPU does for training: learner, memory, acting, whole trainings, A3C. One report.

  python -m benchmarks gpu                        on a machine with a GPU, half an hour
  python -m benchmarks gpu --parts=learner --seconds=20
  python -m benchmarks gpu --only="XLA on;4 workers"   lines whose name has one of these
  python -m benchmarks gpu --smoke                tiny sizes: whether all of it runs, also on a CPU

smoke     Pong as `bin/train` plays it: learner on the GPU, actors on the cores
learner   agent steps/s learned from synthetic unrolls, for each network and arithmetic, with XLA
          and without; `float32` is without the GPU's TF32, `tf32` with it
two       two such learners at once on one GPU, which share its memory
acting    a local training whose actors decide on the CPU, or on the GPU
busy      actors for all cores: in processes of their own that act on the CPU, or in the learner's,
          which then acts on the GPU
a3c       A3C with as many workers as --workers says

Each line is a training of its own, as a user would start it. GB are those that nvidia-smi sees in
use; without nvidia-smi there is a dash. A part that fails says why, and the others continue.
"""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.tools import common
from benchmarks.tools.common import Once
from benchmarks.tools.ports import free_port
from benchmarks.tools.report import Column, Report
from benchmarks.tools.trainer import Trainer, mean, steady_rate
from flags import setting
from lab.trials.claims import visible_gpus
from trainer.machine.quota import usable_cores
from trainer.settings.config import Settings
from user_error import UserError

COLUMNS = (
    Column("part", 8),
    Column("training", 44),
    Column("agent steps/s", 14, ",.0f"),
    Column("frames/s", 10, ",.0f"),
    Column("first update, s", 16, ".1f"),
    Column("policy lag", 11, ".1f"),
    Column("cores busy", 11, ".0%"),
    Column("GB of GPU", 10, ".1f"),
)
NETWORKS = ("ResNetAgent", "ResNetLSTMAgent")
# Name: the flag's value, and whether float32 products may be computed in TF32.
ARITHMETIC = {"float32": ("float32", False), "tf32": ("float32", True), "bf16": ("bfloat16", True)}
NO_TF32 = {"NVIDIA_TF32_OVERRIDE": "0"}
NONE = "none"
FRAMES_PER_STEP = 4
WANTED = 100_000  # frames/s learned from synthetic unrolls with a deep network on one H100


@dataclasses.dataclass(frozen=True)
class Own(Once):
    parts: str = setting(
        "smoke,learner,two,acting,busy,a3c", "Measuring", "those to measure, with commas between"
    )
    only: str = setting(
        "", "Measuring", "lines whose name has one of these, with semicolons between"
    )
    seconds: float = setting(30.0, "Measuring", "measured of each training", above=0)
    smoke_s: float = setting(120.0, "Measuring", "measured of the part smoke", above=0)
    workers: str = setting("4,8,16", "Measuring", "A3C's, with commas between")
    batch_size: int = setting(256, "Measuring", "synthetic unrolls in an update", least=1)
    smoke: bool = setting(False, "Measuring", "tiny sizes, to see that it works")


@dataclasses.dataclass(frozen=True)
class Case:
    """A line of the report: one or several equal trainings at once."""

    part: str
    name: str
    settings: Settings
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    at_once: int = 1
    actors: int = 0  # in processes of their own; 0: all in one process


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "gpu", __doc__, arguments)
    chosen = [case for part in _parts(own) for case in PARTS[part](own) if _is_chosen(case, own)]
    if not chosen:
        raise UserError(f"--only={own.only}: no line of --parts={own.parts} has that in its name.")
    report = Report("gpu", COLUMNS, own, f"GPU: {_gpu()}", "Pong, synthetic unrolls where said")
    with report.finished("frames/s"):
        fastest = 0.0
        for case in chosen:
            common.progress(f"{case.part}: {case.name}")
            try:
                row = _run(case, case.seconds or own.seconds)
            except UserError as error:
                report.row(case.part, f"{case.name}: failed: {error}", *[None] * 6)
                continue
            report.row(case.part, case.name, *row)
            if case.part == "learner":
                fastest = max(fastest, row[1])
        if fastest:
            print(f"\nfastest learner: {fastest:,.0f} frames/s; goal on one H100: {WANTED:,}")


def _parts(own: Own) -> list[str]:
    parts = own.parts.split(",")
    for part in parts:
        if part not in PARTS:
            raise UserError(f"--parts={own.parts}: expected some of {','.join(PARTS)}.")
    return parts


def _is_chosen(case: Case, own: Own) -> bool:
    return any(wanted in case.name for wanted in own.only.split(";"))  # "" is in all


def _settings(own: Own, **changes: Any) -> Settings:
    tiny = {"unroll_length": 5, "batch_size": 2, "envs_per_actor": 2} if own.smoke else {}
    return Settings(level_name="PongNoFrameskip-v4", seed=own.seed, **changes | tiny)


def _smoke(own: Own) -> Sequence[Case]:
    return [Case("smoke", "bin/train", _settings(own), seconds=own.smoke_s)]


def _synthetic(own: Own, agent: str, arithmetic: str, xla: str) -> tuple[Settings, Mapping]:
    precision, tf32 = ARITHMETIC[arithmetic]
    settings = _settings(
        own,
        agent_name=agent,
        precision=precision,
        xla=xla,
        job_name="learner",
        synthetic_unrolls=True,
        unroll_length=20,
        batch_size=own.batch_size,
    )
    return settings, {} if tf32 else NO_TF32


def _learner(own: Own) -> Sequence[Case]:
    networks = ("SimpleConvNetAgent",) if own.smoke else NETWORKS
    return [
        Case("learner", f"{agent}, {kind}, XLA {xla}", *_synthetic(own, agent, kind, xla))
        for agent in networks
        for kind in ARITHMETIC
        for xla in (("off",) if own.smoke else ("on", "off"))
    ]


def _two(own: Own) -> Sequence[Case]:
    agent = "SimpleConvNetAgent" if own.smoke else NETWORKS[0]
    settings, environment = _synthetic(own, agent, "bf16", "auto")
    return [Case("two", f"two of {agent}, bf16, added up", settings, environment, at_once=2)]


def _acting(own: Own) -> Sequence[Case]:
    agent = "SimpleConvNetAgent" if own.smoke else NETWORKS[0]
    return [
        Case("acting", f"{agent}, acting on {where}", _settings(own, agent_name=agent, **chosen))
        for where, chosen in {"cpu": {}, "gpu": {"acting_device": "gpu"}}.items()
        if where == "cpu" or _gpu() != NONE
    ]


def _busy(own: Own) -> Sequence[Case]:
    """Actors that act on cores of their own, or emulate on them and act on the GPU."""
    actors, threads = max(1, usable_cores() - 1), max(1, usable_cores() // 4)
    if own.smoke:
        actors = 2
    ways: list[tuple[str, dict[str, Any], int]] = [
        (f"{actors} processes that act on the CPU", {"actors_on_host": actors}, actors)
    ]
    if _gpu() != NONE:
        chosen = {"acting_device": "gpu", "num_actors": threads}
        ways.append((f"{threads} threads that act on the GPU", chosen, 0))
    many = {"batch_size": own.batch_size, "envs_per_actor": 32}
    return [
        Case(
            "busy",
            f"{agent}, {how}",
            _settings(own, agent_name=agent, **many, **chosen),
            actors=apart,
        )
        for how, chosen, apart in ways
        for agent in ("SimpleConvNetAgent", *([] if own.smoke else NETWORKS[:1]))
    ]


def _a3c(own: Own) -> Sequence[Case]:
    counts = common.numbers("workers", "1" if own.smoke else own.workers)
    return [
        Case("a3c", f"{count} workers", _settings(own, algorithm="a3c", num_actors=count))
        for count in counts
    ]


PARTS: dict[str, Callable[[Own], Sequence[Case]]] = {
    "smoke": _smoke,
    "learner": _learner,
    "two": _two,
    "acting": _acting,
    "busy": _busy,
    "a3c": _a3c,
}


def _run(case: Case, seconds: float) -> list[Any]:
    """The figures of a line; those of several trainings at once are added up or averaged."""
    with contextlib.ExitStack() as stack, _environment(case.environment):
        trainings = [
            stack.enter_context(Trainer(_at_a_port(case.settings), case.actors, seconds / 4))
            for _ in range(case.at_once)
        ]
        first = max(one.wait_for_update() for one in trainings)
        trainings[0].run_for(seconds / 3)
        before = [one.next_report() for one in trainings]
        trainings[0].run_for(seconds)
        gigabytes = _gigabytes()
        after = [one.next_report() for one in trainings]
    steps = sum(steady_rate(*pair) for pair in zip(before, after, strict=True))
    is_real = not case.settings.remote.synthetic_unrolls  # others are of no weights
    lag = mean(after, "policy_lag") if is_real else None
    busy = mean(after, "cores_busy_share")
    return [steps, steps * FRAMES_PER_STEP, first, lag, busy, gigabytes]


def _at_a_port(settings: Settings) -> Settings:
    """A learner's process listens, also one with synthetic unrolls."""
    if settings.program.job_name == "local":
        return settings
    return settings.replace(learner_host=f"localhost:{free_port()}")


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _gpu() -> str:
    """The name of the first GPU that may be used."""
    return _asked("name") or NONE


def _gigabytes() -> float | None:
    """The memory of that GPU that is in use, if nvidia-smi says it."""
    try:
        return float(_asked("memory.used")) / 1024
    except ValueError:  # such as [N/A]
        return None


def _asked(what: str) -> str:
    gpus = visible_gpus()
    if not gpus or not shutil.which("nvidia-smi"):
        return ""
    # It answers for whole GPUs only, not for the parts of one.
    which = [] if gpus[0].startswith("MIG") else ["-i", gpus[0]]
    done = subprocess.run(
        ["nvidia-smi", *which, f"--query-gpu={what}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip().split("\n")[0] if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(common.run("gpu", measure))
