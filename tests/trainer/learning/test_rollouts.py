"""Rollouts: every batch is played with the newest weights; minibatches hold each step once."""

import collections
import contextlib
import queue
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.feeding import InStep
from algorithms.trajectory import Unroll
from tests.trainer.learning.crew import LIKE, Crew, of_size
from tests.trainer.levels import Pictures, Steps, level
from tests.trainer.training import parts, small
from trainer.learning import minibatches
from trainer.learning.rollouts import Rollouts
from trainer.remote.remote_actors import RemoteActors


@settings(max_examples=20)
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), size=st.integers(1, 9))
def test_any_actors_fill_batches_of_any_size_with_the_newest_weights_only(sizes, size):
    crew = Crew(LIKE, sizes)
    rollouts = Rollouts(size, crew)
    for updates in (5, 9, 12):
        crew.play(rollouts.begin(updates))
        batch = rollouts.next(crew.take)
        assert batch is not None
        assert batch.unrolls.level.shape == (size,)
        assert batch.weights_version == updates
        while crew.take():  # late ones are in no batch
            pass
    assert crew.repeats % 3 == 0


def test_nobody_plays_again_while_the_learner_learns_from_a_full_batch():
    crew = Crew(LIKE, [2])
    rollouts = Rollouts(2, crew)
    crew.play(rollouts.begin(0))
    assert rollouts.next(crew.take)
    # The next batch is asked for at once; its actors wait for the weights of the update.
    assert rollouts.next(crew.take) is None
    assert crew.repeats == 0
    crew.play(rollouts.begin(1))
    assert rollouts.next(crew.take)


def test_what_was_played_with_earlier_weights_is_thrown_away():
    crew = Crew(LIKE, [2])
    rollouts = Rollouts(2, crew)
    old = rollouts.begin(0)
    crew.play(old)
    assert rollouts.next(crew.take)
    crew.play(old)  # while the learner learns
    assert rollouts.next(crew.take) is None
    new = rollouts.begin(1)
    crew.play(old)
    crew.play(new)
    batch = rollouts.next(crew.take)
    assert batch is not None and set(batch.unrolls.weights_version) == {new}


def test_a_run_that_resumes_uses_no_number_again():
    crew = Crew(LIKE, [2])
    rollouts = Rollouts(2, crew)
    used = []
    for updates in (0, 4, 8):
        used.append(rollouts.begin(updates))
        crew.play(used[-1])
        assert rollouts.next(crew.take)
    assert used == sorted(set(used))
    # Actors that start anew seed by the number of their first weights.
    assert Rollouts(2, crew).begin(8) not in (1, *used[:-1])


def test_what_was_played_with_weights_that_a_killed_learner_had_not_saved_is_thrown_away():
    crew = Crew(LIKE, [2])
    rollouts = Rollouts(2, crew)
    number = rollouts.begin(4800)
    crew.play(5000)
    assert rollouts.next(crew.take) is None
    crew.play(number)
    batch = rollouts.next(crew.take)
    assert batch is not None and set(batch.unrolls.weights_version) == {number}


def test_unrolls_beyond_a_batch_are_reported_once():
    said: list[str] = []
    crew = Crew(LIKE, [3])
    rollouts = Rollouts(4, crew, said.append)
    for updates in range(2):
        crew.play(rollouts.begin(updates))
        assert rollouts.next(crew.take)
    assert len(said) == 1 and "6 unrolls for batches of 4; 2 of them are thrown away" in said[0]


@pytest.mark.parametrize(
    ("sizes", "size", "whole"), [([2, 2], 3, 0), ([4], 3, 0), ([1, 3], 6, 1), ([1, 3], 11, 2)]
)
def test_each_environment_has_its_turn_where_there_are_too_many(sizes, size, whole):
    crew, turns = Crew(LIKE, sizes), 4
    crew.numbers_streams = True
    rollouts = Rollouts(size, crew)
    used: collections.Counter[int] = collections.Counter()
    for turn in range(turns):
        crew.last_first = turn % 2 == 0
        crew.play(rollouts.begin(turn))
        batch = rollouts.next(crew.take)
        assert batch is not None
        streams = collections.Counter(batch.unrolls.stream.tolist())
        assert set(streams) == {0, 1, 2, 3} or not whole
        assert set(streams.values()) <= {whole, whole + 1}
        used.update(streams)
    assert set(used.values()) == {turns * size // 4} and set(used) == {0, 1, 2, 3}


def test_one_that_does_not_play_is_waited_for_but_not_for_ever(monkeypatch):
    said: list[str] = []
    crew = Crew(LIKE, [2, 2])
    rollouts = Rollouts(4, crew, said.append)
    monkeypatch.setattr(crew, "present", lambda: 3)
    crew.play(rollouts.begin(0))
    for _ in range(3):
        assert rollouts.next(crew.take) is None
    assert not said
    monkeypatch.setattr("trainer.learning.rollouts.LEAST_PATIENCE_S", 0.0)
    monkeypatch.setattr("trainer.learning.rollouts.PATIENCE", 0.0)
    assert rollouts.next(crew.take)
    assert len(said) == 1 and "1 of 3 actors have not played" in said[0]
    # Nor is it when the others have to play again.
    crew.play(rollouts.begin(1))
    crew.take()
    assert rollouts.next(crew.take) and crew.repeats == 1 and len(said) == 1


class Clock:
    """Stands in for ``time``."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_of_one_that_is_there_and_does_not_play_only_the_first_round_is_late(monkeypatch):
    said: list[str] = []
    crew, clock, there = Crew(LIKE, [2, 2]), Clock(), [3]
    monkeypatch.setattr("trainer.learning.rollouts.time", clock)
    monkeypatch.setattr(crew, "present", lambda: there[0])
    rollouts = Rollouts(4, crew, said.append)

    def waits(updates: int) -> bool:
        """Whether a batch of those that play comes only after eleven seconds."""
        crew.play(rollouts.begin(updates))
        at_once = rollouts.next(crew.take)
        clock.now += 11.0
        assert at_once or rollouts.next(crew.take)
        return at_once is None

    assert [waits(updates) for updates in range(4)] == [True, False, False, False]
    # One that plays at last is waited for again, and so is one that joins.
    late = of_size(LIKE, 2)._replace(weights_version=np.full(2, 1, np.float32))
    crew._blocks.append(late)
    assert rollouts.next(crew.take) is None
    assert [waits(updates) for updates in range(4, 7)] == [True, False, False]
    there[0] = 4
    assert [waits(updates) for updates in range(7, 9)] == [True, False]
    there[0] = 2  # those that do not play have left
    assert not waits(9)
    assert len(said) == 1 and "1 of 3 actors have not played" in said[0]


def test_weights_that_are_published_again_do_not_replace_newer_ones():
    published: list[int] = []

    class Busy(Crew):
        """Its learner publishes newer weights just as these are to be published again."""

        def play(self, number: int) -> None:
            published.append(number)
            super().play(number)

        def play_again(self, number: int) -> None:
            learner.start()
            learner.join(0.3)
            super().play_again(number)

    crew = Busy(LIKE, [2])
    rollouts = Rollouts(4, crew)
    learner = threading.Thread(target=lambda: crew.play(rollouts.begin(5)))
    crew.play(rollouts.begin(0))
    block = crew.take()
    assert block is not None
    rollouts._add(block)
    rollouts._ask_again()
    learner.join()
    assert published == [1, 2, 6]


class Inbox:
    """A receiver whose blocks are put in by hand."""

    def __init__(self) -> None:
        self.blocks: queue.Queue[Unroll] = queue.Queue()
        self.numbers: list[int] = []

    def take(self, wait_s: float) -> Unroll | None:
        with contextlib.suppress(queue.Empty):
            return self.blocks.get(timeout=wait_s)
        return None

    def publish(self, weights: list, number: int) -> None:
        self.numbers.append(number)

    def present(self) -> int:
        return 1

    def play(self) -> None:
        """A block with the newest weights."""
        version = np.full_like(LIKE.weights_version, self.numbers[-1])
        self.blocks.put(LIKE._replace(weights_version=version))


def test_a_rollout_that_is_complete_only_after_the_others_have_learned_is_dropped():
    inbox, learner = Inbox(), parts(small(level(Steps), algorithm="ppo")).learner
    receiver: Any = inbox
    with RemoteActors(receiver, learner.agent, lambda crew: Rollouts(3, crew)) as actors:
        actors.publish(learner)
        inbox.play()
        while actors._ahead._ready._blocks == collections.deque():
            time.sleep(0.01)
        learner.updates += 1
        actors.publish(learner)
        assert actors.next(1.0) is None
        inbox.play()
        batch = actors.next(20.0)
        assert batch is not None and batch.weights_version == learner.updates


@pytest.mark.parametrize(("count", "epochs", "parts_"), [(8, 3, 4), (7, 2, 3), (5, 1, 1)])
def test_every_epoch_goes_through_all_unrolls_in_another_order(count, epochs, parts_):
    passes = minibatches.Passes(epochs, parts_, piece_length=0, pieces=count, seed=3)
    found = list(passes.orders(count, updates=5))
    assert len(found) == epochs * parts_
    whole = [np.concatenate(found[i : i + parts_]) for i in range(0, len(found), parts_)]
    assert all(sorted(order) == list(range(count)) for order in whole)
    assert len({tuple(order) for order in whole}) == epochs
    sizes = {len(indices) for indices in found}
    assert max(sizes) - min(sizes) <= 1


def test_fewer_minibatches_than_chosen_are_reported():
    feeding = InStep(minibatches=16, piece_length=1)
    whole = minibatches.Passes.of(feeding, 128, unrolls=8, whole=True, seed=0)
    assert whole.minibatches == 8
    assert "in 8 minibatches, not 16 (--minibatches)" in whole.remark(feeding)
    assert "it has only 8 whole unrolls" in whole.remark(feeding)
    assert not minibatches.Passes.of(feeding, 128, unrolls=8, whole=False, seed=0).remark(feeding)
    short = minibatches.Passes.of(feeding, 10, unrolls=1, whole=False, seed=0)
    assert "it has only 10 pieces (--piece_length)" in short.remark(feeding)


@pytest.mark.parametrize("environment", [Steps, Pictures])
def test_an_agent_sees_the_same_in_pieces_as_in_whole_unrolls(environment):
    made = parts(small(level(environment), width=36, height=36, frame_stack=3, unroll_length=12))
    actor = made.actor()
    actor.unroll()
    whole = actor.unroll()
    assert whole.environment.first[1:].any()
    learner, agent = made.learner, made.learner.agent
    positions = np.arange(12 * 3).reshape(12, 3)
    starts = range(0, 12, 4)
    steps = whole.environment
    states = agent.states(steps.observation, steps.reward, steps.first, whole.initial_state, starts)
    pieces, cut = minibatches.in_pieces(whole, positions, states, 4)
    assert pieces.action.shape[:2] == (5, 9)
    np.testing.assert_array_equal(np.sort(np.ravel(cut)), np.arange(36))
    expected = policy(learner, whole)[:-1]
    got = policy(learner, pieces)[:-1]
    rows, columns = np.divmod(np.ravel(cut), 3)
    np.testing.assert_allclose(got.reshape(36, -1), expected[rows, columns], atol=1e-5)


def policy(learner, unrolls):
    steps = unrolls.environment
    output, _ = learner.agent(
        steps.observation, steps.reward, unrolls.action, steps.first, unrolls.initial_state
    )
    return output.policy.numpy()
