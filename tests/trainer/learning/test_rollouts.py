"""Rollouts: every batch is played with the newest weights; minibatches hold each step once."""

import collections
import contextlib
import queue
import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.feeding import InStep
from algorithms.reinforce import Reinforce
from algorithms.trajectory import Unroll
from tests.trainer.levels import Pictures, Steps, level
from tests.trainer.training import block, parts, small, values_of
from trainer.learning import minibatches
from trainer.learning.batches import UNTIMED, Batch
from trainer.learning.rollouts import Rollouts, WholeEpisodes
from trainer.remote.remote_actors import RemoteActors


class Crew:
    """Actors that play a block of their own size each time that weights are published."""

    def __init__(self, like: Unroll, sizes: list[int]):
        self.sizes = sizes
        self.repeats = 0
        self.numbers_streams = False  # from 0; otherwise all have the same
        self.last_first = False  # the last actor is the fastest
        self._like = like
        self._blocks: collections.deque[Unroll] = collections.deque()

    def present(self) -> int:
        return len(self.sizes)

    def play_again(self, number: int) -> None:
        self.repeats += 1
        self.play(number)

    def play(self, number: int) -> None:
        """Every actor plays a block with the weights of this number."""
        ends = np.cumsum(self.sizes)
        for size, end in list(zip(self.sizes, ends, strict=True))[:: -1 if self.last_first else 1]:
            version = np.full(size, number, np.float32)
            played = _of(self._like, size)._replace(weights_version=version)
            if self.numbers_streams:
                played = played._replace(stream=np.arange(end - size, end))
            self._blocks.append(played)

    def take(self) -> Unroll | None:
        return self._blocks.popleft() if self._blocks else None


def _of(like: Unroll, size: int) -> Unroll:
    """A block of ``size`` unrolls, all like the first."""
    indices = np.zeros(size, np.int64)
    pieces, _ = minibatches.chosen(like, (), indices)
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), pieces)


LIKE = block(small(level(Steps)))


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


def test_environments_have_as_many_whole_episodes_however_long_these_are():
    made = parts(small(level(Steps), algorithm="reinforce"))
    like, lengths, most = block(made.settings), (3, 40), 40
    length = len(like.action) - 1
    rows = np.arange(most * length + 1)[:, None]
    first = (rows + np.array([1, 11])) % lengths == 0
    like = _of(like, 2)
    blocks = collections.deque(
        like._replace(
            number=np.full_like(like.number, index),
            environment=tf.nest.map_structure(
                lambda array: np.concatenate([array[:1], array[1:-1], array[:1]]), like.environment
            )._replace(first=first[index * length : (index + 1) * length + 1]),
        )
        for index in range(most)
    )
    crew = Crew(like, [2])
    episodes = WholeEpisodes(4, crew)
    version = episodes.begin(0)
    crew.play_again = lambda number: None  # type: ignore[method-assign]
    batch = episodes.next(
        lambda: blocks.popleft()._replace(weights_version=np.full(2, version + 10, np.float32))
    )
    assert batch is not None and blocks
    algorithm = made.learner.algorithm
    assert isinstance(algorithm, Reinforce)
    # Two of each, without the rows of their resets.
    weights = np.sum(algorithm.weights(batch.unrolls), axis=0)
    assert weights.tolist() == [2 * (n - 1) for n in lengths]
    firsts = first[: (most - len(blocks)) * length + 1]
    assert batch.steps == np.count_nonzero(~firsts[1:])


def numbered(number: int, version: int) -> Unroll:
    return LIKE._replace(
        number=np.full_like(LIKE.number, number),
        weights_version=np.full_like(LIKE.weights_version, version),
        # Each begins with the last row of the one before.
        environment=tf.nest.map_structure(
            lambda array: np.concatenate([array[:1], array[1:-1], array[:1]]), LIKE.environment
        ),
    )


@pytest.mark.parametrize(
    ("numbers", "rows", "unrolls"),
    [
        ([4, 5, 6, 7], 4, 3),
        ([4, 4, 5, 5], 2, 6),  # two actors with one number
        ([4, 5, 0, 6, 7], 4, 3),  # one of them has only begun
        ([4, 5, 0], 2, 3),  # an actor that was started again
        ([4, 5, 6], 4, 3),  # lengths are powers of two
    ],
)
def test_blocks_are_joined_only_to_what_was_played_right_before(numbers, rows, unrolls):
    crew = Crew(LIKE, [3])
    episodes = WholeEpisodes(1, crew)
    version = episodes.begin(0)
    batch = episodes._batch([numbered(number, version) for number in numbers])
    length = len(LIKE.action) - 1
    assert batch.unrolls.action.shape[:2] == (rows * length + 1, unrolls)


def test_steps_of_whole_episodes_count_alike_whatever_the_size_of_their_batch():
    for length in (30, 60):
        made = parts(small(level(Steps), algorithm="reinforce", unroll_length=length))
        batch = block(made.settings)
        algorithm = made.learner.algorithm
        assert isinstance(algorithm, Reinforce)
        weights = algorithm.weights(batch)
        contribution, _ = made.learner.contribution(batch)
        assert float(contribution.count) == pytest.approx(float(tf.reduce_sum(weights)) / 1000)


def episodes_of(unrolls: list[Unroll], size: int) -> Batch:
    """A batch of so many whole episodes."""
    return WholeEpisodes(size, Crew(LIKE, [3]))._batch(unrolls)


def in_blocks(whole: Unroll, count: int, length: int) -> list[Unroll]:
    """Consecutive blocks of an actor, as which it has played this."""

    def rows(start: int) -> Any:
        return lambda array: array[start : start + length + 1]

    timed = [name for name in Unroll._fields if name not in UNTIMED]
    return [
        whole._replace(number=np.full_like(whole.number, index))._replace(
            **{
                name: tf.nest.map_structure(rows(index * length), getattr(whole, name))
                for name in timed
            }
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("normalise", [True, False])
def test_rows_that_make_batches_alike_change_nothing(normalise, monkeypatch):
    chosen: dict[str, Any] = {"normalise_advantages": normalise, "unroll_length": 35}
    of = small(level(Steps), algorithm="reinforce", optimizer="sgd", learning_rate=0.1, **chosen)
    blocks = in_blocks(block(of), count=5, length=7)
    padded = episodes_of(blocks, 2)
    monkeypatch.setattr("trainer.learning.rollouts._power_of_two", lambda count: count)
    plain = episodes_of(blocks, 2)
    assert (len(plain.unrolls.action), len(padded.unrolls.action)) == (36, 57)
    assert padded.steps == plain.steps
    updated = []
    for batch in (plain, padded):
        made = parts(of)
        before = values_of(made.learner.weights)
        pieces, prepared = made.learner.rollout(batch.unrolls, 0)
        contribution, samples = made.learner.contribution(pieces, prepared)
        figures = made.learner.move(contribution, samples, 1.0).figures
        updated.append((values_of(made.learner.weights), figures, float(contribution.count)))
    (one, figures, count), (other, padded_figures, padded_count) = updated
    assert count == pytest.approx(padded_count, rel=1e-6) and count > 0
    assert figures == pytest.approx(padded_figures, rel=1e-4, abs=1e-6)
    assert any(not np.allclose(was, is_, atol=1e-4) for was, is_ in zip(before, one, strict=True))
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_resets_beyond_the_episodes_of_a_batch_leave_no_reward_that_is_no_number():
    length = 11
    first = np.zeros([length + 1, 3], bool)
    first[[0, 3, 4, 7, 8]] = True  # a dream's rows that lead up to its start are resets
    played = block(small(level(Steps), algorithm="reinforce", unroll_length=length))
    reward = np.where(first, np.float32(np.nan), np.float32(1))
    played = played._replace(
        environment=played.environment._replace(first=first, reward=reward),
        number=np.zeros_like(played.number),
    )
    batch = episodes_of([played], 3)  # one of each
    after = batch.unrolls.environment
    assert np.flatnonzero(after.first[:, 0]).tolist() == [0, 3, 4]
    assert not np.isnan(after.reward[~after.first]).any()


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
    assert not minibatches.Passes.of(feeding, 128, unrolls=8, whole=False, seed=0).remark(feeding)


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
