"""The learner's count of its actors."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from transport import make_identity
from transport.messages import Header, fingerprint
from transport.roster import Roster

IDENTITY = make_identity({}, "layout")


def letter(kind, number):
    content = {"kind": kind, "actor": bytes([number] * 16).hex(), "name": f"actor {number}"}
    return content | ({"identity": IDENTITY} if kind == "hello" else {})


def test_the_mean_counts_from_when_the_first_actor_joined():
    roster = Roster(IDENTITY, timeout_s=100.0, say=lambda _: None)
    roster.pass_time(50.0)
    assert roster.mean_present() == 0
    roster.hear(letter("hello", 1))
    assert roster.mean_present() == 1
    roster.pass_time(1.0)
    roster.hear(letter("hello", 2))
    roster.pass_time(2.0)
    assert roster.mean_present() == pytest.approx((1 + 2 * 2) / 3)
    for number in (1, 2):
        roster.hear(letter("bye", number))
    roster.pass_time(2.0)
    assert roster.mean_present() == pytest.approx((1 + 2 * 2) / 5)


def test_a_block_sent_twice_counts_once_even_if_its_actor_has_left():
    printed: list[str] = []
    roster = Roster(IDENTITY, timeout_s=100.0, say=printed.append)
    roster.hear(letter("hello", 1))
    header = Header(fingerprint(IDENTITY), bytes([1] * 16), 1, 1, 0.0)
    assert roster.accepts(header)
    for _ in range(2):
        roster.hear(letter("bye", 1))
    assert not roster.accepts(header)
    assert (roster.present, len(printed)) == (0, 2)
    roster.hear(letter("hello", 1))
    assert (roster.present, len(printed)) == (1, 3)


def test_other_learners_are_no_actors():
    printed: list[str] = []
    roster = Roster(IDENTITY, timeout_s=5.0, say=printed.append)
    roster.hear(letter("hello", 1) | {"is_learner": True})
    assert roster.present == 0 and not roster.is_empty
    assert "has joined; 0 actors connected" in printed[-1]
    roster.hear(letter("hello", 2))
    for number, waited in ((1, 1.0), (2, 0.25)):
        assert roster.accepts(Header(fingerprint(IDENTITY), bytes([number] * 16), 1, 1, waited))
    roster.pass_time(4.0)
    assert (roster.mean_present(), roster.waited_s()) == (1.0, 1.0)
    roster.hear(letter("beat", 2))
    roster.pass_time(2.0)  # the other learner has been silent for too long
    assert "nothing has been heard of actor 1" in printed[-1]
    roster.hear(letter("bye", 2))
    assert roster.is_empty


def join(roster, count):
    for number in range(count):
        roster.hear(letter("hello", number))


def test_actors_can_be_counted_while_others_join():
    roster = Roster(IDENTITY, timeout_s=100.0, say=lambda _: None)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            joining = pool.submit(join, roster, 256)
            while not joining.done():
                assert 0 <= roster.present <= 256
            joining.result()
    finally:
        sys.setswitchinterval(interval)
    assert roster.present == 256
