"""How long a learner of a team waits for its batch."""

import math

from trainer.learning.batches import LOOK_EVERY_S
from trainer.programs.patience import LATER_THAN_OTHERS, Patience
from trainer.team.team import Round

OTHERS_PLAYED = Round(batches=2.0, played_s=20.0)  # 10 s each
IN_STEP_S = LATER_THAN_OTHERS * 10.0


def test_a_learner_that_is_alone_waits_without_an_end():
    assert Patience().of_next(0, is_starved=False) == math.inf


def test_a_late_learner_does_not_hold_up_the_others_until_it_has_a_batch():
    patience = Patience(5.0)
    assert patience.of_next(1, is_starved=False) == 5.0
    patience.after(OTHERS_PLAYED, has_batch=False)
    assert patience.of_next(1, is_starved=True) == 0.0
    patience.after(Round(), has_batch=False)
    assert patience.of_next(1, is_starved=True) == LOOK_EVERY_S
    patience.after(OTHERS_PLAYED, has_batch=True)
    assert patience.of_next(1, is_starved=False) == 5.0


def test_in_step_it_is_waited_for_ever_more_rarely_but_never_given_up():
    patience = Patience(5.0, in_step=True)
    patience.of_next(1, is_starved=False)
    waited = []
    for missed in range(1, 40):
        patience.after(OTHERS_PLAYED, has_batch=False)
        if seconds := patience.of_next(1, is_starved=True):
            assert seconds == IN_STEP_S
            waited.append(missed)
    assert waited == [1, 2, 4, 8, 16, 32]


def test_in_step_actors_that_come_late_are_waited_for_at_once():
    patience = Patience(5.0, in_step=True)
    assert patience.of_next(0, is_starved=False) == 5.0
    for _ in range(9):
        patience.after(OTHERS_PLAYED, has_batch=False)
        assert patience.of_next(0, is_starved=True) == 0.0
    assert patience.of_next(1, is_starved=True) == IN_STEP_S
    for _ in range(3):
        patience.after(OTHERS_PLAYED, has_batch=False)
        last = patience.of_next(1, is_starved=True)
    assert last == 0.0
    assert patience.of_next(2, is_starved=True) == IN_STEP_S
    patience.after(OTHERS_PLAYED, has_batch=True)
    assert patience.of_next(2, is_starved=False) == IN_STEP_S
