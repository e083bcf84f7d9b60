"""Batches of whole episodes."""

import collections
import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from algorithms.feeding import InStep
from algorithms.own_settings.reinforce import ReinforceSettings
from algorithms.reinforce import Reinforce
from algorithms.trajectory import Unroll
from tests.trainer.learning.crew import LIKE, Crew, of_size
from tests.trainer.levels import Steps, level
from tests.trainer.training import block, endless, parts, small, values_of
from trainer.learning.batches import UNTIMED, Batch, describe
from trainer.learning.whole_episodes import WholeEpisodes
from trainer.programs.stopping import StopSignal
from trainer.programs.training import Training
from trainer.reporting.metrics import Meter
from user_error import UserError


def test_environments_have_as_many_whole_episodes_however_long_these_are():
    made = parts(small(level(Steps), algorithm="reinforce"))
    like, lengths, most = block(made.settings), (3, 40), 40
    length = len(like.action) - 1
    rows = np.arange(most * length + 1)[:, None]
    first = (rows + np.array([1, 11])) % lengths == 0
    like = of_size(like, 2)
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
    newest = [episodes.begin(0)]
    crew.play_again = newest.append  # type: ignore[method-assign, assignment]
    batch = episodes.next(
        lambda: blocks.popleft()._replace(weights_version=np.full(2, newest[-1], np.float32))
    )
    assert batch is not None and blocks
    algorithm = made.learner.algorithm
    assert isinstance(algorithm, Reinforce)
    # Two of each, without the rows of their resets.
    weights = np.sum(algorithm.weights(batch.unrolls), axis=0)
    assert weights.tolist() == [2 * (n - 1) for n in lengths]
    firsts = first[: (most - len(blocks)) * length + 1]
    assert batch.steps == np.count_nonzero(~firsts[1:])


def test_of_short_episodes_as_many_are_learned_from_as_a_block_of_the_batch_before_has():
    made = parts(small(level(Steps), algorithm="reinforce", unroll_length=20))
    algorithm = made.learner.algorithm
    assert isinstance(algorithm, Reinforce)
    like = of_size(block(made.settings), 2)
    first = np.arange(21)[:, None] % (3, 5) == 0
    played = like._replace(environment=like.environment._replace(first=first))
    episodes = WholeEpisodes(2, Crew(like, [2]))
    for each in 1, 4:  # all that the environment with the longer ones has ended
        weights = np.sum(algorithm.weights(episodes._batch([played]).unrolls), axis=0)
        assert weights.tolist() == [2 * each, 4 * each]


def numbered(number: int, version: int, like: Unroll = LIKE) -> Unroll:
    return like._replace(
        number=np.full_like(like.number, number),
        weights_version=np.full_like(like.weights_version, version),
        # Each begins with the last row of the one before.
        environment=tf.nest.map_structure(
            lambda array: np.concatenate([array[:1], array[1:-1], array[:1]]), like.environment
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


def test_each_block_of_whole_episodes_is_compared_once(monkeypatch):
    compared = collections.Counter[int]()

    def continues(one: Unroll, other: Unroll) -> bool:
        compared[int(other.number[0])] += 1
        return True

    monkeypatch.setattr("trainer.learning.whole_episodes._continues", continues)
    episodes = WholeEpisodes(10**6, Crew(LIKE, [3]))
    version = episodes.begin(0)
    for number in range(20):
        episodes._add(numbered(number, version))
        assert not episodes._is_full()
    assert compared == dict.fromkeys(range(1, 20), 1)


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_an_episode_that_never_ends_is_refused_also_after_others(ended, monkeypatch):
    monkeypatch.setattr("trainer.learning.whole_episodes.MOST_ROWS", 40)
    first = np.arange(200)[:, np.newaxis] % (10, 10, 10) == 9  # episodes of ten rows ...
    first[10 * (ended + 1) :, 1] = False  # ... of which one environment has only so many
    episodes = WholeEpisodes(9, Crew(LIKE, [3]))
    version = episodes.begin(0)
    length = len(LIKE.action) - 1
    with pytest.raises(UserError, match="had no whole episode in 4[0-9] steps"):
        for number in range(200 // length):
            block = numbered(number, version)
            rows = first[number * length : (number + 1) * length + 1]
            episodes._add(block._replace(environment=block.environment._replace(first=rows)))
            assert not episodes._is_full()


def test_episodes_of_very_many_environments_may_have_as_many_steps_as_elsewhere():
    like, count, rows = of_size(LIKE, 1024), 0, 201
    episodes = WholeEpisodes(1024, Crew(like, [1024]))
    version, length = episodes.begin(0), len(like.action) - 1
    while not episodes._is_full():
        played = np.arange(count * length, (count + 1) * length + 1)
        first = np.broadcast_to(played[:, np.newaxis] % rows == 0, like.environment.first.shape)
        block = numbered(count, version, like)
        episodes._add(block._replace(environment=block.environment._replace(first=first)))
        count += 1
    assert count == -(-rows // length)


def test_rows_in_which_no_environment_is_there_yet_fill_no_batch():
    episodes = WholeEpisodes(9, Crew(LIKE, [3]))
    one = numbered(0, episodes.begin(0))
    waits = one.environment._replace(first=np.ones_like(one.environment.first))
    episodes._add(one._replace(environment=waits))
    assert not episodes._is_full()


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
    monkeypatch.setattr("trainer.learning.whole_episodes._power_of_two", lambda count: count)
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


@dataclasses.dataclass(frozen=True)
class TwiceSettings(ReinforceSettings):
    """Goes through each batch of whole episodes twice."""

    @property
    def feeding(self) -> InStep:
        """How batches are fed."""
        return InStep(epochs=2, whole_episodes=True)


def test_all_unrolls_of_whole_episodes_are_learned_from_in_each_epoch(monkeypatch):
    twice = "tests.trainer.learning.test_whole_episodes:TwiceSettings"
    chosen = {"batch_size": 2, "envs_per_actor": 5, "total_environment_frames": 1}
    made = parts(small(level(Steps), algorithm=twice, **chosen))
    batch = describe(made.actor().unroll(), 5)
    learned: list[list[int]] = []
    of_some = made.learner.contribution.of_some

    def noted(pieces: Unroll, prepared: Any, indices: np.ndarray) -> Any:
        learned.append(sorted(indices))
        return of_some(pieces, prepared, indices)

    monkeypatch.setattr(made.learner.contribution, "of_some", noted)
    meter = Meter(made.settings.level.levels, 1, {}, made.learner.figures)
    Training(made.settings, made.learner, meter, endless(batch), StopSignal(), run=None).run()
    assert learned == 2 * [[0, 1, 2, 3, 4]]
