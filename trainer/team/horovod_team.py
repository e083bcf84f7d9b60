"""The learners that one ``mpirun`` started; Horovod carries what they say to one another."""

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
    """Horovod, initialised."""
    try:
        import horovod.tensorflow as hvd
    except ImportError as error:
        raise UserError(
            f"learners that train together need Horovod, which cannot be imported ({error}). "
            "bin/setup --learner installs it."
        ) from None
    # Open MPI would keep a core busy while it waits, though it has little to do and the core much.
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    # Milliseconds between two looks at what is to be added up; an update waits for two of them.
    os.environ.setdefault("HOROVOD_CYCLE_TIME", "0.1")
    hvd.init()
    return hvd


class HorovodTeam:
    """See ``Team``. Whoever has waited for the others for ``timeout_s`` says so, once."""

    def __init__(self, hvd: Any, timeout_s: float, gradient_compression: str = "none"):
        self.rank = hvd.rank()
        self.size = hvd.size()
        self._hvd = hvd
        self._timeout_s = timeout_s
        self._waiting_since: float | None = None
        self._waited_s = 0.0
        self._told = False
        # Compiled, so that each reduction has one name for the whole run, and all begin at once.
        self._sums = tf.function(
            functools.partial(_sums, hvd, compression.TYPES.get(gradient_compression)),
            autograph=False,
        )
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def add_up(
        self, mine: Round, exact: Tensors, gradients: Tensors
    ) -> tuple[Round, Tensors, Tensors]:
        """The sums over all learners, of gradients as exact as ``--gradient_compression``."""
        told = np.array(mine, np.float64)
        told, exact, gradients = self._wait(lambda: self._sums(told, exact, gradients))
        return Round(*told.numpy()), exact, gradients

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """All learners' rows [N, ...], one learner's below another's."""
        return self._wait(lambda: self._hvd.allgather(rows, name="rows")).numpy()

    def share(self, variables: Sequence[tf.Variable]) -> None:
        """Gives all learners the first one's values."""
        self._wait(lambda: self._hvd.broadcast_variables(list(variables), root_rank=0))

    def tell(self, value: Any) -> Any:
        """What the first learner gave, as JSON can tell it."""
        text = json.dumps(value).encode() if self.rank == 0 else b""
        # Gathered and not broadcast, as those who listen do not know its length.
        return json.loads(self.gather(np.frombuffer(text, np.uint8)).tobytes())

    def waited_s(self) -> float:
        """Seconds spent on the others until now: waiting for them, and adding up with them."""
        return self._waited_s

    def _wait(self, call: Callable[[], Any]) -> Any:
        self._waiting_since = started = time.monotonic()
        try:
            return call()
        finally:
            self._waiting_since = None
            self._waited_s += time.monotonic() - started
            if self._told:
                self._told = False
                say(f"learner {self.rank}: the other learners are back.")

    def _watch(self) -> None:
        while True:
            time.sleep(min(1.0, self._timeout_s / 4))
            since = self._waiting_since
            if since and not self._told and time.monotonic() - since > self._timeout_s:
                self._told = True
                say(
                    f"learner {self.rank}: nothing has been heard of another learner for "
                    f"{self._timeout_s:g} s; waiting for it."
                )


def _sums(
    hvd: Any, compressed: tf.DType | None, told: tf.Tensor, exact: Tensors, gradients: Tensors
) -> tuple[tf.Tensor, Tensors, Tensors]:
    told = hvd.allreduce(told, op=hvd.Sum, name="round")
    if compressed is None:
        both = hvd.grouped_allreduce([*exact, *gradients], op=hvd.Sum, name="shares")
        return told, both[: len(exact)], both[len(exact) :]
    sums = hvd.grouped_allreduce(exact, op=hvd.Sum, name="shares")
    return told, sums, compression.sums(hvd, gradients, compressed)
