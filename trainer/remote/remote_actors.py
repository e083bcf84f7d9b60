"""A learner's actors in other processes: batches are made before the learner asks for them."""

import threading
from typing import Any

import numpy as np
import tensorflow as tf

from algorithms.trajectory import Unroll
from trainer.learning.batches import LOOK_EVERY_S, Batch, Batches
from trainer.learning.learner import Learner
from trainer.machine.threads import name_thread
from trainer.reporting.metrics import EndedEpisodes
from transport import Closed, Receiver, UnrollQueue


class RemoteActors:
    """Takes unrolls from a receiver; a thread joins the next batch during an update."""

    def __init__(self, receiver: Receiver, agent: Any, batches: Batches):
        """Weights are sent in the types in which ``agent`` keeps them."""

        self._receiver = receiver
        self._batches = batches
        self._ready = UnrollQueue(capacity=1)
        self._episodes = EndedEpisodes()
        self._error: Exception | None = None
        gpus = tf.config.list_logical_devices("GPU")
        self._device = gpus[0].name if gpus else "/device:CPU:0"
        dtypes = [weight.dtype for weight in agent.variables]
        # A copy, because the next update moves the learner's own weights.
        self._copy = tf.function(
            lambda weights: [tf.cast(w, to) for w, to in zip(weights, dtypes, strict=True)],
            autograph=False,
        )
        self._thread = threading.Thread(target=self._prepare, name="batches", daemon=True)

    def __enter__(self) -> "RemoteActors":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ready.close()
        self._thread.join()

    def next(self, wait_s: float) -> Batch | None:
        """The next batch, on the learner's device; None if none is ready in time."""
        try:
            return self._ready.take(wait_s)
        except Closed:
            raise self._error or Closed from None

    def episodes(self) -> np.ndarray:
        """The episodes that have ended since the last call, see ``ended_episodes``."""
        return self._episodes.take()

    def publish(self, learner: Learner) -> None:
        """Sends the learner's weights to the actors."""
        self._receiver.publish(self._copy(learner.weights), learner.updates)

    def waits(self) -> dict[str, float]:
        """Seconds waited so far: the learner for a batch, an actor for the learner."""
        return {
            "learner_wait_share": self._ready.take_wait_s,
            "actor_wait_share": self._receiver.waited_s(),
        }

    def count(self) -> float:
        """The mean number of connected actors since the first one joined."""
        return self._receiver.mean_actors()

    def _prepare(self) -> None:
        name_thread("batches")
        try:
            while True:
                self._ready.announce(1)
                self._ready.put(self._next(), 1)
        except Closed:
            pass
        except Exception as error:  # raised by ``next`` in the learner's thread
            self._error = error
            self._ready.close()

    def _next(self) -> Batch:
        batch = None
        while batch is None:
            self._ready.check_open()
            batch = self._batches.next(self._take)
        return self._on_device(batch)

    def _on_device(self, batch: Batch) -> Batch:
        with tf.device(self._device):
            on_device: Any = tf.nest.map_structure(tf.convert_to_tensor, batch.unrolls)
        return batch._replace(unrolls=on_device)

    def _take(self) -> Unroll | None:
        block = self._receiver.take(LOOK_EVERY_S)
        if block is not None:
            self._episodes.add(block)
        return block
