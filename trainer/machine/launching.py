"""How this process was started, and the commands with which a user here starts others."""

import os
import sys
from pathlib import Path

from checkout import is_checkout, typed

# The folder with experiment.py: a checkout, or where pip has installed the project.
PROJECT = Path(__file__).resolve().parents[2]
# The commands of an installed project, by the scripts of a checkout.
COMMANDS = {
    "bin/lab": "impala-lab",
    "bin/train": "impala-train",
    "experiment.py": "impala-train",
    "run_experiment_mm_raw.py": "impala-cluster",
}

# Open MPI, other MPIs and Horovod's launcher set these to the number of processes they started.
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE")


def launched_together() -> bool:
    """Whether this process was started as one of several."""
    # Under srun --mpi=pmix, only Slurm says how many there are. It says so of every step, also of
    # one that several actors share, so PMIx must be there as well.
    sizes = (*SIZES, "SLURM_STEP_NUM_TASKS") if "PMIX_RANK" in os.environ else SIZES
    return any(int(os.environ.get(name) or 1) > 1 for name in sizes)


def script_name(script: str) -> str:
    """What messages call a script: as it is, or the command that pip made of it."""
    is_command = Path(sys.argv[0]).name == COMMANDS[script] or not is_checkout()
    return COMMANDS[script] if is_command else script


def script_command(script: str) -> list[str]:
    """The words with which a user here runs a script of the project."""
    if is_checkout():
        return [typed(sys.executable), typed(PROJECT / script)]
    return [beside_python(COMMANDS[script])]


def module_command(module: str) -> list[str]:
    """The words that run a module of the project; ``with_project`` is its environment.

    ``-P``: the current folder may have packages of the same names.
    """
    return [sys.executable, "-P", "-m", module]


def with_project() -> dict[str, str]:
    """The environment of a process that finds the project's modules wherever it starts."""
    paths = filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def beside_python(name: str) -> str:
    """A program of this process's Python environment, as a user can type it here."""
    return typed(Path(sys.executable).with_name(name))


def learners_here() -> int:
    """How many of mpirun's processes are on this host."""
    return int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") or 1)


def keep_to_this_host() -> None:
    """Restricts Open MPI to shared memory, without open ports, if all its processes are here.

    A choice that the user has made is kept.
    """
    here, everywhere = (os.environ.get(f"OMPI_COMM_WORLD_{of}SIZE") for of in ("LOCAL_", ""))
    # Under srun --mpi=pmix, Open MPI's variables are not there, and Slurm says on how many nodes.
    one_node = os.environ.get("SLURM_STEP_NUM_NODES") == "1" and "PMIX_RANK" in os.environ
    if (here and here == everywhere) or (not everywhere and one_node):
        os.environ.setdefault("OMPI_MCA_btl", "self,vader")
