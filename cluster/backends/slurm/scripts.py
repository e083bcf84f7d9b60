"""Scripts for sbatch, and the command that starts several learners in a job."""

import os.path
import shlex
from collections import Counter
from collections.abc import Sequence

from cluster.backends.slurm import allocation
from cluster.backends.slurm.model import RUN_ID, Job, Process
from cluster.model import Here
from cluster.mpi_environment import ENVIRONMENT
from cluster.options import Options
from user_error import UserError

MPI_ENVIRONMENT = tuple(ENVIRONMENT.items())
# Before a time limit, so that a checkpoint can be written and the job be put back into the queue.
WARNED_S = 120
# What the scripts decide themselves; another value would break the run.
OWN = (
    "array", "a", "job-name", "J", "output", "o", "error", "e", "open-mode", "requeue",
    "no-requeue", "signal", "wrap", "ntasks", "n", "nodelist", "w", "chdir", "D", "test-only",
    "parsable", "wait", "W",
)  # fmt: skip
# Whichever the site has: Slurm's own start of MPI programs, or Open MPI's inside the allocation.
LAUNCHER = """
if srun --mpi=list 2>&1 | grep -qw pmix; then
  # Since Slurm 22.05, a step does not inherit this from its job.
  cpus=${{SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK}}
  exec srun --mpi=pmix {where}--overlap --job-name={name} $cpus --ntasks={count} \\
    --kill-on-bad-exit=1 "$@"
fi
exec mpirun -mca odls_base_sigkill_timeout 5 {hosts}-np {count} -bind-to none -map-by slot "$@"
"""


def launcher(nodes: Sequence[str], is_one_job: bool) -> str:
    """A shell's command that runs its arguments as learners, each on a node or on any ("")."""
    where, hosts = "--het-group=0 " if is_one_job else "", ""
    named = Counter(node for node in nodes if node)
    if named and allocation.own():  # a job of its own has the nodes that it asks for
        where = f"--nodelist={','.join(named)} "
        if all(nodes):  # else others are needed besides, which mpirun cannot be told
            where += f"--nodes={len(named)} "
            hosts = f"-host {','.join(f'{node}:{count}' for node, count in named.items())} "
    name = f"impala-learners-{RUN_ID}"
    return LAUNCHER.format(count=len(nodes), where=where, hosts=hosts, name=name).strip()


def is_one_job(options: Options, actors: Sequence[object]) -> bool:
    """Whether all of it is one heterogeneous job."""
    return options.one_job and bool(actors) and not allocation.own()


def jobs(
    learners: Process,
    actors: Sequence[Process],
    count: int,
    nodes: Sequence[str],
    folder: str,
    options: Options,
    here: Here,
) -> list[Job]:
    """The learners' job, and an array of actors for each node that the CSV names."""
    of_learners = resources(options.learner_resources, "learner_resources")
    of_actors = resources(options.actor_resources, "actor_resources")
    asked = [f"--ntasks={count}", *([f"--nodelist={','.join(nodes)}"] if nodes else [])]
    python = shlex.quote(here.python)
    kept = f"{python} -m cluster.on_host.slurm_job {shlex.quote(folder)}"
    keeper = f"{kept} SLURM_PROCID"
    found = shlex.quote(os.path.dirname(here.script))
    enter = f"cd {shlex.quote(here.folder)} && export PYTHONPATH={found}:$PYTHONPATH || exit"
    learning = [*asked, *of_learners]
    if allocation.own():
        of_each = {"learner": of_learners, "actor": of_actors}
        return [allocation.job(learners, by_node(actors), of_each, enter, keeper)]
    if is_one_job(options, actors):
        names = [one.name for one in actors]
        # The plan has seen to it that it is the same for all of them.
        acting = [f"--ntasks={len(actors)}", *allocation.on_node(actors[0].node), *of_actors]
        body = [
            enter,
            "trap : TERM # its processes get it as well, and are waited for",
            f"{keeper} {learners.name} & learners=$!",
            f"srun --het-group=1 --kill-on-bad-exit=0 {keeper} {' '.join(names)} & actors=$!",
            "trap 'kill -USR1 $learners' USR1 # Slurm warns the script only",
            "while wait $learners; code=$?; kill -0 $learners 2>/dev/null; do :; done",
            "while wait $actors; kill -0 $actors 2>/dev/null; do :; done",
            "exit $code",
        ]
        text = _script("all", [learning, acting], folder, body, options.container)
        return [Job("all", text, (learners.name, *names))]
    body = [enter, f"exec {keeper} {learners.name}"]
    text = _script(learners.name, [learning], folder, body, options.container)
    made = [Job(learners.name, text, (learners.name,))]
    for number, group in enumerate(by_node(actors)):
        names = [one.name for one in group]
        where = allocation.on_node(group[0].node)
        asked = ["--ntasks=1", f"--array=0-{len(names) - 1}", *where, *of_actors]
        body = [enter, f"exec {kept} SLURM_ARRAY_TASK_ID {' '.join(names)}"]
        name = f"actors-{number}"
        text = _script(name, [asked], folder, body, options.container)
        made.append(Job(name, text, tuple(names)))
    return made


def by_node(actors: Sequence[Process]) -> list[list[Process]]:
    """Groups of actors: an array has one list of nodes for all its tasks."""
    nodes = dict.fromkeys(one.node for one in actors)
    return [[one for one in actors if one.node == node] for node in nodes]


def _script(
    name: str, parts: Sequence[Sequence[str]], folder: str, body: Sequence[str], container: str
) -> str:
    """A script for sbatch; several parts make a heterogeneous job."""
    lines = ["#!/bin/bash"]
    for number, options in enumerate(parts):
        lines += ["#SBATCH hetjob"] * bool(number)
        own = [f"--job-name=impala-{name}-{RUN_ID}"]
        own += [f"--container={shlex.quote(container)}"] * bool(container)
        if not number:
            log = f"{folder}/slurm-{name}.log".replace("%", "%%")
            own += [f"--output={shlex.quote(log)}", "--open-mode=append"]
            own += ["--requeue", f"--signal=B:USR1@{WARNED_S}"]
        lines += [f"#SBATCH {option}" for option in (*own, *options)]
    return "\n".join([*lines, *body]) + "\n"


def resources(given: str, flag: str) -> list[str]:
    """The options in a flag's value, each as sbatch takes it in a script."""
    try:
        words = shlex.split(given)
    except ValueError:
        raise UserError(f"--{flag}={given}: a quotation mark is not closed.") from None
    found: list[list[str]] = []
    for word in words:
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            found.append([name, value] if equals else [name])
        elif found and len(found[-1]) == 1:
            found[-1].append(word)
        else:
            raise UserError(
                f"--{flag}: {word!r} is not an option of sbatch; expected such as --partition=gpu."
            )
    for name, *_ in found:
        if _is_own(name):
            raise UserError(f"--{flag}: the run itself decides {name}. Leave that out.")
    return [("=" if one[0].startswith("--") else " ").join(_quoted(one)) for one in found]


def _is_own(name: str) -> bool:
    """Whether sbatch takes an option for one of OWN.

    A short one may have its value attached, as in -n4; a long one may be cut, as in --job.
    """
    if name.startswith("--"):
        return any(own.startswith(name[2:]) for own in OWN)
    return name[1:2] in OWN


def _quoted(words: Sequence[str]) -> list[str]:
    return [words[0], *map(shlex.quote, words[1:])]
