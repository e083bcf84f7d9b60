"""Actors that were started with the same ``--task``."""

from argparse import Namespace
from typing import Any

import numpy as np
import pytest

from algorithms.trajectory import Unroll
from tests.trainer.levels import Steps, level
from tests.trainer.training import block, parts, small
from trainer.learning.worker import OF_ACTOR, Computed, lean
from trainer.programs.learner_process import _actors
from trainer.remote.tasks import Tasks
from trainer.team.team import ALONE


def said_of(numbers: list[int]) -> list[str]:
    """What is said when blocks of these numbers come with one --task, and others with another."""
    said: list[str] = []
    tasks = Tasks(said.append)
    for count, number in enumerate(numbers):
        for first, one in ((0, count), (1024, number)):
            stream = np.arange(first, first + 3)
            tasks.check(Namespace(stream=stream, number=np.full(3, one)))
    return said


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 0, 1, 1, 2, 2],  # in step
        [56, 57, 0, 58, 1, 59, 60, 2, 3, 61],
    ],
)
def test_actors_of_the_same_number_are_reported_once(numbers):
    [line] = said_of(numbers)
    assert "two actors play with the same --task" in line


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1, 2, 0, 0, 1],  # started again, twice
        [50, 51, 55, 56],  # known to another learner before; some were lost
        [56, 57, 0, 58, 1, 2],  # one came late
        [56, 57, 0, 58, 1, 2, 0, 3, 1, 2],  # at each of two starts
    ],
)
def test_an_actor_that_is_started_again_is_not_reported(numbers):
    assert said_of(numbers) == []


@pytest.mark.parametrize("algorithm", ["a2c", "a3c"])
def test_a_learner_looks_at_what_it_takes_whatever_its_actors_send(algorithm):
    chosen = small(level(Steps), algorithm=algorithm)
    unrolls, said = block(chosen), list[str]()
    nothing: Any = None

    def sent(number: int) -> Unroll | Computed:
        numbered = unrolls._replace(number=np.full_like(unrolls.number, number))
        return Computed(lean(numbered), nothing, [], OF_ACTOR) if algorithm == "a3c" else numbered

    blocks = iter([sent(number) for number in (0, 0, 1, 1, 2, 2)])
    receiver: Any = Namespace(take=lambda wait_s: next(blocks))
    made = parts(chosen)
    actors = _actors(
        chosen,
        made.spec,
        made.learner.agent,
        ALONE,
        receiver,
        lambda crew: nothing,
        said.append,
        None,
    )
    for _ in range(6):
        assert actors._take() is not None
    assert len(said) == 1
