"""The queue between actors' threads and the learner."""

import threading
import time

import pytest

from transport import Closed, UnrollQueue


def play(queue: UnrollQueue, block: object, count: int) -> None:
    queue.announce(count)
    queue.put(block, count)


def test_blocks_come_out_in_order():
    queue = UnrollQueue(capacity=10)
    for block in "abc":
        play(queue, block, 2)
    assert [queue.take(), queue.take(), queue.take()] == ["a", "b", "c"]


def test_an_actor_that_is_too_far_ahead_waits_before_it_plays():
    queue = UnrollQueue(capacity=4)
    play(queue, "a", 4)
    late = threading.Thread(target=play, args=(queue, "b", 4))
    late.start()
    time.sleep(0.1)
    assert late.is_alive()
    assert queue.take() == "a"
    late.join(5)
    assert queue.take() == "b"
    assert queue.put_wait_s >= 0.1


def test_announced_unrolls_count_as_ahead():
    queue = UnrollQueue(capacity=4)
    queue.announce(4)
    second = threading.Thread(target=queue.announce, args=(4,), daemon=True)
    second.start()
    time.sleep(0.1)
    assert second.is_alive()
    queue.put("a", 4)
    queue.take()
    second.join(5)
    assert not second.is_alive()


def test_a_block_larger_than_the_queue_fits():
    queue = UnrollQueue(capacity=1)
    play(queue, "large", 16)
    assert queue.take() == "large"


def test_taking_from_an_empty_queue_times_out():
    queue = UnrollQueue(capacity=1)
    assert queue.take(timeout_s=0.05) is None
    assert queue.take_wait_s >= 0.05


def test_blocks_of_many_threads_arrive_once():
    queue = UnrollQueue(capacity=8)

    def put_fifty(index: int) -> None:
        for i in range(50):
            play(queue, (index, i), 3)

    threads = [threading.Thread(target=put_fifty, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    taken = [queue.take(timeout_s=10) or (-1, -1) for _ in range(200)]
    for thread in threads:
        thread.join(5)
    assert len(set(taken)) == 200
    for index in range(4):
        assert [i for one, i in taken if one == index] == list(range(50))


def test_closing_a_queue_ends_present_and_later_calls():
    queue = UnrollQueue(capacity=1)
    play(queue, "a", 1)
    ended = []

    def wait_for_room():
        try:
            play(queue, "b", 1)
        except Closed:
            ended.append("closed")

    waiting = threading.Thread(target=wait_for_room)
    waiting.start()
    time.sleep(0.05)
    queue.close()
    waiting.join(5)
    assert ended == ["closed"]
    with pytest.raises(Closed):
        queue.take()
    with pytest.raises(Closed):
        queue.announce(1)
    with pytest.raises(Closed):
        queue.put("c", 1)
