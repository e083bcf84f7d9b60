"""Makes the next batch while the learner updates, and copies it to the learner's device."""

import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.learning.batches import Batch
from trainer.machine.threads import name_thread
from transport import Closed, UnrollQueue


def on_device(batch: Batch) -> Batch:
    """A batch as tensors where the learner computes."""
    gpus = tf.config.list_logical_devices("GPU")
    with tf.device(gpus[0].name if gpus else "/device:CPU:0"):
        tensors: Any = tf.nest.map_structure(tf.convert_to_tensor, batch.unrolls)
    return batch._replace(unrolls=tensors)


class BatchesAhead:
    """A thread that keeps one batch ready; ``close`` ends it."""

    def __init__(self, make: Callable[[], Batch | None]):
        """``make`` returns a batch on the learner's device, or None from time to time."""
        self._make = make
        self._ready = UnrollQueue(capacity=1)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)

    def start(self) -> None:
        """Begins with the first batch."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._ready.close()
        if self._thread.ident is not None:
            self._thread.join()

    def next(self, wait_s: float) -> Batch | None:
        """The next batch; None if it is not ready in time."""
        try:
            return self._ready.take(wait_s)
        except Closed:
            if self._error:
                raise self._error  # noqa: B904 (it has its own cause)
            raise

    @property
    def take_wait_s(self) -> float:
        """Seconds for which the learner has waited so far."""
        return self._ready.take_wait_s

    def _work(self) -> None:
        name_thread("batches")
        try:
            while True:
                self._ready.announce(1)
                batch = None
                while batch is None:
                    self._ready.check_open()
                    batch = self._make()
                self._ready.put(batch, 1)
        except Closed as closed:
            self._error = self._error or closed
            self._ready.close()
        except Exception as error:  # raised by ``next`` in the learner's thread
            self._error = error
            self._ready.close()
