"""Which agent has which column."""

import numpy as np

from environments.unity.behaviour import Shown, joined
from environments.unity.columns import Columns


def shown(asked: dict[int, float], ended: dict[int, float] | None = None, reward: float = 0.0):
    """Agents, each with the number that it sees."""
    ended = ended or {}
    return Shown(
        list(asked),
        np.array(list(asked.values()), np.float32)[:, None],
        np.full(len(asked), reward, np.float32),
        list(ended),
        np.array(list(ended.values()), np.float32)[:, None],
        [9.0] * len(ended),
        [True] * len(ended),
    )


def test_one_agent_alone_loses_no_step_between_episodes():
    columns = Columns(1, 1)
    assert columns.restart(shown({5: 1})).first.all()
    ends = columns.add(shown({6: 3}, {5: 2}))
    assert (ends.observation[0, 0], ends.reward[0], ends.over[0]) == (2, 9, True)
    assert columns.is_idle
    starts = columns.begin()
    assert starts.first[0] and starts.observation[0, 0] == 3 and starts.reward[0] == 0
    assert not columns.is_idle
    assert columns.actions(np.array([7])) == {6: 7}


def test_an_agent_that_is_not_asked_keeps_its_row_and_its_episode():
    columns = Columns(2, 1)
    columns.restart(shown({1: 10, 2: 20}))
    rows = columns.add(shown({2: 21}, reward=1))
    np.testing.assert_array_equal(rows.observation[:, 0], [10, 21])
    np.testing.assert_array_equal(rows.reward, [0, 1])
    assert not rows.first.any() and not rows.over.any()


def test_a_column_without_an_agent_waits_for_one_and_what_is_too_many_waits_for_a_column():
    columns = Columns(2, 1)
    columns.restart(shown({1: 10}))
    rows = columns.add(shown({1: 11}))
    np.testing.assert_array_equal(rows.first, [False, True])
    rows = columns.add(shown({1: 12, 2: 20, 3: 30}))
    np.testing.assert_array_equal(rows.observation[:, 0], [12, 20])
    rows = columns.add(shown({2: 21, 3: 31}, {1: 13}))
    np.testing.assert_array_equal(rows.observation[:, 0], [13, 21])
    rows = columns.add(shown({2: 22, 3: 32}))
    np.testing.assert_array_equal(rows.observation[:, 0], [32, 22])
    np.testing.assert_array_equal(rows.first, [True, False])


def test_messages_that_ask_none_of_those_who_go_on_belong_to_the_next():
    columns = Columns(2, 1)
    columns.restart(shown({1: 10, 2: 20}))
    ends = shown({}, {1: 13})
    assert columns.expects_more(ends)
    assert not columns.expects_more(shown({2: 21}, {1: 13}))
    assert not columns.expects_more(shown({}, {1: 13, 2: 23}))
    whole = joined(ends, shown({3: 30, 2: 21}, reward=1))
    assert not columns.expects_more(whole)
    rows = columns.add(whole)
    np.testing.assert_array_equal(rows.observation[:, 0], [13, 21])
    np.testing.assert_array_equal(rows.reward, [9, 1])
    np.testing.assert_array_equal(rows.over, [True, False])


def test_an_agent_that_has_begun_and_ended_between_two_messages_gets_no_column():
    columns = Columns(2, 1)
    columns.restart(shown({1: 10, 2: 20}))
    columns.add(shown({2: 21}, {1: 13}))
    whole = joined(shown({3: 30}), shown({2: 22, 4: 40}, {3: 31}))
    assert list(whole.asked) == [2, 4]
    rows = columns.add(whole)
    np.testing.assert_array_equal(rows.observation[:, 0], [40, 22])


def test_a_column_without_an_agent_learns_nothing_when_the_world_ends():
    columns = Columns(2, 1)
    columns.restart(shown({1: 10, 2: 20}))
    columns.add(shown({2: 21}, {1: 13}))
    rows = columns.add(shown({2: 22})._replace(over=True))
    np.testing.assert_array_equal(rows.first, [True, False])
    np.testing.assert_array_equal(rows.over, [False, True])
