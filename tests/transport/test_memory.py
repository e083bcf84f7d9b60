"""The blocks that wait at a learner have a bound in bytes, however many actors send."""

import numpy as np
import pytest

from tests.transport.ends import BLOCKS, Actor, Learner, eventually, running

UNROLLS, CAPACITY, ACTORS = 4, 8, 3


@pytest.mark.usefixtures("carrier")
def test_actors_faster_than_their_learner_only_fill_its_queue():
    learner = Learner(capacity=CAPACITY)
    actors = [Actor(learner, f"actor {index}") for index in range(ACTORS)]
    # The queue, one block beyond, one in TensorFlow's queue if that is the transport, and one
    # that each actor is sending.
    bound = BLOCKS.size(CAPACITY) + (2 + ACTORS) * BLOCKS.size(UNROLLS)
    with running(learner, *actors):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        eventually(lambda: all(actor.weights for actor in actors))
        sent = 0
        while any(actor.put([sent] * UNROLLS, seconds=1.5) for actor in actors):
            sent += 1
            assert sent < 100
        waiting = sum(actor.link._number for actor in actors)
        assert BLOCKS.size(CAPACITY) <= waiting * BLOCKS.size(UNROLLS) <= bound
        assert len(learner.take(waiting * UNROLLS)) == waiting * UNROLLS
        # There is room again, and no actor was given up.
        eventually(lambda: all(actor.put([7] * UNROLLS, seconds=0.1) for actor in actors))
