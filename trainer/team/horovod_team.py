"""The learners that one ``mpirun`` started; they communicate through Horovod."""

import functools
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.machine.terminal import say
from trainer.team import compression
from trainer.team.team import Round, Tensors
from user_error import UserError


def horovod() -> Any:
    """Imports and initialises Horovod."""
    try:
        import horovod.tensorflow as hvd
    except ImportError as error:
        raise UserError(
            f"learners that train together need Horovod, which cannot be imported ({error}). "
            "bin/setup --learner installs it."
        ) from None
    # Otherwise Open MPI spins while it waits, on a core that other threads need.
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    # Milliseconds between Horovod's checks for tensors to reduce; an update waits for two of them.
    os.environ.setdefault("HOROVOD_CYCLE_TIME", "0.1")
    # Where no mpirun of this project has set it, see cluster/mpi_environment.py.
    os.environ.setdefault("HWLOC_COMPONENTS", "-gl")
    hvd.init()
    return hvd


class HorovodTeam:
    """See ``Team``. A learner that has waited for the others for ``timeout_s`` reports it once."""

    def __init__(self, hvd: Any, timeout_s: float, gradient_compression: str = "none"):
        self.rank = hvd.rank()
        self.size = hvd.size()
        self._hvd = hvd
        self._timeout_s = timeout_s
        self._waiting_since: float | None = None
        self._waited_s = 0.0
        self._silence_reported = False
        # A graph, so that each reduction keeps one name for the whole run, and all start together.
        self._sums = tf.function(
            functools.partial(_sums, hvd, compression.TYPES.get(gradient_compression)),
            autograph=False,
        )
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def add_up(
        self, mine: Round, exact: Tensors, gradients: Tensors
    ) -> tuple[Round, Tensors, Tensors]:
        """The sums over all learners, of gradients as exact as ``--gradient_compression``."""
        values = np.array(mine, np.float64)
        values, exact, gradients = self._wait(lambda: self._sums(values, exact, gradients))
        return Round(*values.numpy()), exact, gradients

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """The rows [N, ...] of all learners, joined in the order of ranks."""
        return self._wait(lambda: self._hvd.allgather(rows, name="rows")).numpy()

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Copies the first learner's values to all learners."""
        self._wait(lambda: self._hvd.broadcast_variables(list(variables), root_rank=0))

    def broadcast_value(self, value: Any) -> Any:
        """Returns the first learner's ``value``, which must be valid JSON, on all learners."""
        text = json.dumps(value).encode() if self.rank == 0 else b""
        # Gathered rather than broadcast: receivers do not know its length.
        return json.loads(self.gather(np.frombuffer(text, np.uint8)).tobytes())

    def waited_s(self) -> float:
        """Seconds spent so far waiting for other learners and adding up with them."""
        return self._waited_s

    def _wait(self, call: Callable[[], Any]) -> Any:
        self._waiting_since = started = time.monotonic()
        try:
            return call()
        finally:
            self._waiting_since = None
            self._waited_s += time.monotonic() - started
            if self._silence_reported:
                self._silence_reported = False
                say(f"learner {self.rank}: the other learners are back.")

    def _watch(self) -> None:
        while True:
            time.sleep(min(1.0, self._timeout_s / 4))
            since = self._waiting_since
            if since and not self._silence_reported and time.monotonic() - since > self._timeout_s:
                self._silence_reported = True
                say(
                    f"learner {self.rank}: no answer from another learner for "
                    f"{self._timeout_s:g} s; waiting for it."
                )


def _sums(
    hvd: Any, compressed: tf.DType | None, values: tf.Tensor, exact: Tensors, gradients: Tensors
) -> tuple[tf.Tensor, Tensors, Tensors]:
    values = hvd.allreduce(values, op=hvd.Sum, name="round")
    if compressed is None:
        both = hvd.grouped_allreduce([*exact, *gradients], op=hvd.Sum, name="contributions")
        return values, both[: len(exact)], both[len(exact) :]
    sums = hvd.grouped_allreduce(exact, op=hvd.Sum, name="contributions")
    return values, sums, compression.sums(hvd, gradients, compressed)
