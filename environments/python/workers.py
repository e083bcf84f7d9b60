"""Worker processes that step the environments of a batch, a slice each.

Workers are fresh interpreters (`environments.python.worker`) that import this package and the
level, but not TensorFlow. One byte to a worker starts a step, one byte from it says that the rows
are in the shared memory. A cut has a byte more for each environment, and no answer. A worker ends
when the other ends of its pipes are closed, so also when this process is killed. It and what its
environments start are a process group: Ctrl-C reaches none of them.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np

from environments.python import shared_rows
from environments.python.mujoco_pictures import OPENGL
from environments.python.plain import gymnasium_spec
from environments.python.shared_rows import SharedRows
from environments.python.slices import Factory, Rows, pictures_per_second
from environments.step import EnvironmentSpec
from environments.view import View
from user_error import EndedOutside, UserError

RESET, STEP, CUT = b"r", b"s", b"c"
DONE, FAILED = b".", b"!"
CLOSE_TIMEOUT_S = 5.0

# The path comes first: without it, nothing else could be imported.
_PROGRAM = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from environments.python.worker import main
main()
"""


class WorkerDied(EndedOutside):
    """A worker has ended without being asked to; the message is one line and names the level."""


class Task(NamedTuple):
    """What a worker is started with."""

    factory: Factory  # has to be picklable
    level_name: str
    view: View
    spec: EnvironmentSpec
    num_envs: int  # of the whole batch
    mine: slice  # of it
    seeds: list[int]
    memory: int  # file descriptors
    answers: int


class Workers:
    """N environments in some processes."""

    def __init__(
        self,
        factory: Factory,
        seeds: list[int],
        level_name: str,
        view: View,
        count: int,
    ) -> None:
        with contextlib.closing(factory()) as one:
            self.spec = gymnasium_spec(one, level_name, view)
            self.pictures_per_second = pictures_per_second(one, view)
        self.seeds = seeds
        memory = shared_rows.create(self.spec, len(seeds))
        self._shared = SharedRows(memory, self.spec, len(seeds))
        self._workers: list[_Worker] = []
        try:
            for part in np.array_split(np.arange(len(seeds)), count):
                mine = slice(int(part[0]), int(part[-1]) + 1)
                task = Task(
                    factory, level_name, view, self.spec, len(seeds), mine,
                    seeds[mine], memory, answers=-1,
                )  # fmt: skip
                self._workers.append(_Worker(task))
            self._wait()
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)

    def reset(self) -> Rows:
        """Restarts every environment from its seed."""
        return self._all(RESET)

    def step(self, actions: np.ndarray) -> Rows:
        """Takes one action of the agent in each environment."""
        self._shared.actions[:] = actions
        return self._all(STEP)

    def cut(self, which: np.ndarray) -> None:
        """Makes the next step a reset of these environments."""
        for worker in self._workers:
            worker.send(CUT + np.asarray(which, bool)[worker.mine].tobytes())

    def _all(self, command: bytes) -> Rows:
        for worker in self._workers:
            worker.send(command)
        self._wait()
        return self._shared.rows

    def _wait(self) -> None:
        for worker in self._workers:
            worker.wait()

    def close(self) -> None:
        """Ends the processes."""
        for worker in self._workers:
            worker.leave()
        until = time.monotonic() + CLOSE_TIMEOUT_S
        for worker in self._workers:
            worker.join(until)


class _Worker:
    """One process and the pipes to it and from it."""

    def __init__(self, task: Task) -> None:
        self._level_name, self.mine = task.level_name, task.mine
        answers, theirs = os.pipe()
        self._answers = os.fdopen(answers, "rb", buffering=0)
        # The last argument is for those who look at the list of processes.
        command = [sys.executable, "-c", _PROGRAM, f"environments of {task.level_name}"]
        try:
            with OPENGL:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=[task.memory, theirs],
                    env=_one_thread_each(),
                    process_group=0,
                )
        except OSError as error:
            raise UserError(
                f"--env_processes: so many processes cannot be started ({error.strerror})."
            ) from None
        finally:
            os.close(theirs)
        self.send(pickle.dumps(sys.path) + pickle.dumps(task._replace(answers=theirs)))

    def send(self, command: bytes) -> None:
        """Sends bytes; whether the process lives shows when it is waited for."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(command)

    def wait(self) -> None:
        """Waits for the answer; raises what the environment has raised."""
        answer = self._answers.read(1)
        if answer == FAILED:
            error, text = pickle.loads(self._answers.readall())
            error.add_note(f"In a process of {self._level_name}:\n{text}")
            raise error
        if answer != DONE:
            raise WorkerDied(
                f"a process that steps environments of {self._level_name} "
                f"{_end(self._process.wait())}"
            )

    def leave(self) -> None:
        """Asks the process to end."""
        assert self._process.stdin
        self._process.stdin.close()

    def join(self, until: float) -> None:
        """Waits for its end, or brings it about at that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, until - time.monotonic()))
        if self._process.returncode != 0:  # what its environments have started is still there
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._answers.close()


def _end(code: int) -> str:
    """How a process has ended, as the end of a sentence."""
    if code >= 0:
        return f"ended with exit code {code}"
    memory = ", perhaps for lack of memory" if code == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{memory}"


def _one_thread_each() -> dict[str, str]:
    """The environment variables, with which libraries of arithmetic start no threads."""
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ}
