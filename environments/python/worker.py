"""The program of a worker process, see `environments.python.workers`."""

import os
import pickle
import select
import signal
import sys
import threading
import traceback

import numpy as np

from environments.python.shared_rows import SharedRows
from environments.python.slices import Slice
from environments.python.workers import CUT, DONE, FAILED, RESET, Task


def main() -> None:
    """Steps the environments of a task whenever a byte comes, until the pipe is closed."""
    # The process that has started this one decides when it ends. Signals are handled, not ignored:
    # what an environment starts would ignore them, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    task: Task = pickle.load(sys.stdin.buffer)
    # An environment may read what it likes, and start what it likes.
    commands = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.set_inheritable(task.answers, False)
    threading.Thread(target=_end_with_reader, args=(task.answers,), daemon=True).start()
    try:
        _serve(task, commands)
    except BaseException as error:
        with os.fdopen(task.answers, "wb") as answers:
            answers.write(FAILED + pickle.dumps((_picklable(error), traceback.format_exc())))
        sys.exit(1)


def _serve(task: Task, commands: int) -> None:
    mine, shared = task.mine, SharedRows(task.memory, task.spec, task.num_envs)
    os.close(task.memory)
    played = Slice(task.factory, task.seeds, task.level_name, task.view)
    os.write(task.answers, DONE)
    while command := os.read(commands, 1):
        if command == CUT:
            played.cut(np.frombuffer(os.read(commands, len(task.seeds)), bool))
            continue
        rows = played.reset() if command == RESET else played.step(shared.actions[mine])
        shared.write(rows, mine)
        os.write(task.answers, DONE)
    played.close()


def _end_with_reader(answers: int) -> None:
    """Ends this process as soon as nobody can read its answers, also within a step.

    What an environment has started ends with it.
    """
    poll = select.poll()
    poll.register(answers, 0)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def _picklable(error: BaseException) -> BaseException:
    """The error, or one that says the same where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
