"""How many actors a learner had, as it counts them itself."""

import pytest

from transport import make_identity
from transport.messages import Header, fingerprint
from transport.roster import Roster

IDENTITY = make_identity({}, "layout")


def letter(kind, number):
    told = {"kind": kind, "actor": bytes([number] * 16).hex(), "name": f"actor {number}"}
    return told | ({"identity": IDENTITY} if kind == "hello" else {})


def test_actors_are_counted_over_the_time_since_the_first_came():
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


def test_a_block_that_is_sent_twice_counts_once_though_its_actor_has_left_meanwhile():
    said: list[str] = []
    roster = Roster(IDENTITY, timeout_s=100.0, say=said.append)
    roster.hear(letter("hello", 1))
    header = Header(fingerprint(IDENTITY), bytes([1] * 16), 1, 1, 0.0)
    assert roster.accepts(header)
    for _ in range(2):
        roster.hear(letter("bye", 1))
    assert not roster.accepts(header)
    assert (roster.present, len(said)) == (0, 2)
    roster.hear(letter("hello", 1))
    assert (roster.present, len(said)) == (1, 3)
