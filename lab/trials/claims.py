"""Which cores and GPUs of this machine sessions have: locks on files that stand for them.

With Python's standard library only, for the keeper.
"""

import contextlib
import fcntl
import os
import re
import subprocess
import tempfile
from pathlib import Path

GPUS = "CUDA_VISIBLE_DEVICES"
GPUS_WITHIN_S = 20.0
SESSIONS_OF_GPU = 64  # that are counted


def locked(file: int) -> bool:
    """Locks an open file; returns whether no other process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # the file system has no locks
    return True


def claim(count: int) -> list[int]:
    """Cores that no other session on this machine has claimed; held until this process ends."""
    claimed: list[int] = []
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.suppress(OSError):  # a full disk; others may then have the same cores
        folder = _claims("cores")
        for core in cores:
            if len(claimed) < count:
                file = _opened(folder / str(core))
                if locked(file):
                    claimed.append(core)
                else:
                    os.close(file)
    return claimed or cores[:count]


def held(cores: list[int]) -> list[int]:
    """These cores, claimed where no other session has them; held until this process ends."""
    with contextlib.suppress(OSError):  # a full disk; they are used anyway
        folder = _claims("cores")
        for core in cores:
            locked(_opened(folder / str(core)))
    return cores


def is_claimed(core: int) -> bool:
    """Whether a session on this machine has claimed a core."""
    try:
        file = _opened(_claims("cores") / str(core))
    except OSError:
        return False
    is_free = locked(file)
    os.close(file)
    return not is_free


def visible_gpus() -> list[str]:
    """The names of the GPUs that this process may use; none where there are none."""
    asked = os.environ.get(GPUS)
    if asked is not None:
        names = [name.strip() for name in asked.split(",")]
        hidden = [place for place, name in enumerate(names) if name in ("", "-1", "NoDevFiles")]
        return names[: hidden[0]] if hidden else names  # CUDA sees none after one that is none
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"],
            capture_output=True, timeout=GPUS_WITHIN_S, check=True, text=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    found: list[str] = []
    for name in re.findall(r"UUID: ((?:GPU|MIG)-[^)\s]+)", listed):
        if name.startswith("MIG") and found and found[-1].startswith("GPU"):
            found.pop()  # a GPU that is divided is used by its parts only
        found.append(name)
    return found


def claim_gpu(gpus: list[str]) -> str:
    """The GPU that the fewest sessions on this machine have; it counts until this process ends."""
    try:
        return _freest(gpus)
    except OSError:  # a full disk; others may then have the same GPU
        return gpus[os.getpid() % len(gpus)]


def _freest(gpus: list[str]) -> str:
    folder = _claims("gpus")

    def of(gpu: str, place: int) -> int:
        return _opened(folder / f"{gpu.replace('/', '-')}.{place}")

    def is_free(gpu: str, place: int) -> bool:
        file = of(gpu, place)
        found = locked(file)
        os.close(file)
        return found

    with open(folder / "turn", "a") as turn:
        with contextlib.suppress(OSError):  # the file system has no locks
            fcntl.flock(turn, fcntl.LOCK_EX)  # two at once would choose the same
        free = {gpu: [one for one in range(SESSIONS_OF_GPU) if is_free(gpu, one)] for gpu in gpus}
        chosen = max(gpus, key=lambda gpu: len(free[gpu]))
        for place in free[chosen][:1]:
            locked(of(chosen, place))
    return chosen


def _claims(what: str) -> Path:
    """The folder of files that stand for a machine's cores or GPUs."""
    folder = Path(tempfile.gettempdir()) / f"impala-{what}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _opened(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
