"""A receiver whose carrier fails: what ends the learner with it, and what does not."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.transport.ends import BLOCKS, WEIGHTS
from transport import Closed, Receiver, make_identity
from transport.distributed import _reason
from transport.messages import FINISHED, Lost, Silent


class Carrier:
    """It waits for ever, but where a test has it fail."""

    def __init__(self, **fails):
        self._fails = fails
        self._never = threading.Event()

    def _do(self, what):
        if what in self._fails:
            raise self._fails[what]

    def announce(self, about):
        pass

    def publish(self, weights, version):
        self._do("finish" if version == FINISHED else "publish")

    def receive(self):
        self._do("receive")
        self._never.wait()
        raise Closed

    def hear(self, timeout_s):
        self._do("hear")
        if self._never.wait(0.01):
            raise Closed

    def close(self):
        self._do("close")
        self._never.set()


def receiver(carrier, said):
    identity = make_identity({}, BLOCKS.digest())
    return Receiver(carrier, identity, BLOCKS, WEIGHTS, capacity=4, timeout_s=0.1, say=said.append)


@pytest.mark.parametrize("where", ["receive", "hear"])
@pytest.mark.parametrize("error", [Lost("it is gone"), Silent(), Closed(), ValueError("odd")])
def test_a_carrier_that_fails_ends_the_learner_instead_of_letting_it_starve(where, error):
    with receiver(Carrier(**{where: error}), []) as made, pytest.raises(type(error)):
        while made.take(5) is None:
            pass


def test_weights_that_cannot_be_published_end_it_too():
    with receiver(Carrier(publish=Lost("it is gone")), []) as made, pytest.raises(Lost):
        made.publish([np.zeros(3, np.float32)], 1)
        while made.take(5) is None:
            pass


@pytest.mark.parametrize("error", [Lost("it is gone"), Silent(), Closed()])
def test_a_carrier_that_fails_at_the_end_spoils_nothing(error):
    said: list[str] = []
    with receiver(Carrier(finish=error, close=error), said) as made:
        made.finish()
    [told] = said
    assert told.startswith("warning: actors could not be told of the end (")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Graph execution error:\n\n", "InternalError"),
        ("Graph execution error:\n\nFrom /job:learner/replica:0/task:0:\nit broke", "it broke"),
        (
            "Graph execution error:\n\nDetected at node 'a' defined at (most recent call last):\n"
            "<stack traces unavailable>\nNode: 'a'\nFrom /job:learner/replica:0/task:0:\n"
            "it broke\n\t [[{{node a}}]]",
            "it broke",
        ),
        ("Session was closed.", "Session was closed."),
    ],
)
def test_an_error_of_a_session_is_told_in_its_own_words(text, reason):
    assert _reason(tf.errors.InternalError(None, None, text)) == reason
