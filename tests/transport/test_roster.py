"""How many actors a learner had, as it counts them itself."""

import pytest

from transport import make_identity
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
