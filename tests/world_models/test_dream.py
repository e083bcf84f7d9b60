"""The model as a vector environment: starts, cuts, ends; here with a model made by hand."""

import dataclasses

import numpy as np
import pytest
from gymnasium import spaces

from environments import EnvironmentSpec, EnvironmentStep, Measure
from environments.dream import DreamEnvironment, Dreamt, Model, Starts

SPEC = EnvironmentSpec(
    "Made-v0", spaces.Box(0, 255, (1, 1, 1), np.uint8), spaces.Discrete(3), 1, 4, True
)


def predict(stacks: np.ndarray, actions: np.ndarray, state: np.ndarray) -> Dreamt:
    """Adds the action to the newest picture; 9 and more end the game, with a reward."""
    newest = stacks[..., -1:] + actions.astype(np.uint8)[:, None, None, None]
    over = newest[:, 0, 0, 0] >= 9
    return Dreamt(newest, over.astype(np.float32), over, state + 1)


def starts(count: int, random: np.random.Generator) -> Starts:
    """Half of the starts are of an episode's beginning."""
    stacks = np.tile(np.array([2, 3], np.uint8), (count, 1, 1, 1))
    return Starts(stacks, np.arange(count) % 2)


def copied(step: EnvironmentStep) -> EnvironmentStep:
    return EnvironmentStep(*(np.array(part) for part in step))


@pytest.fixture
def dream():
    model = Model(predict, lambda count: np.zeros([count, 1], np.float32), starts)
    return DreamEnvironment(SPEC, model, num_envs=2, length=3, seed=1)


def test_a_dream_starts_from_real_play(dream):
    step = dream.reset()
    assert step.first.all() and not step.reward.any()
    assert step.observation.ravel().tolist() == [3, 3]
    assert step.observation.dtype == np.uint8


def test_each_dream_takes_its_own_action(dream):
    dream.reset()
    assert dream.step(np.array([0, 2])).observation.ravel().tolist() == [3, 5]


def test_a_dream_is_cut_and_not_terminated_after_its_length(dream):
    dream.reset()
    steps = [dream.step(np.array([0, 2])) for _ in range(4)]
    # The second one is over by the model's word at the same step: 3, 5, 7, 9.
    assert [one.terminated.tolist() for one in steps] == [
        [False, False],
        [False, False],
        [False, True],
        [False, False],
    ]
    assert steps[3].first.all() and steps[3].observation.ravel().tolist() == [3, 3]
    assert [(one.raw_return, one.length, one.frames) for one in dream.episodes()] == [
        (0.0, 3, 12),
        (1.0, 3, 12),
    ]


def test_a_dream_that_is_cut_from_outside_starts_anew_and_is_no_episode(dream):
    dream.reset()
    dream.step(np.array([1, 1]))
    dream.cut(np.array([True, False]))
    step = dream.step(np.array([1, 1]))
    assert step.first.tolist() == [True, False]
    assert step.observation.ravel().tolist() == [3, 5]
    assert dream.episodes() == []


def test_pictures_before_a_start_lead_up_to_it_and_are_not_experience():
    stacking = dataclasses.replace(SPEC, frame_stack=2)
    model = Model(predict, lambda count: np.zeros([count, 1], np.float32), starts)
    dream = DreamEnvironment(stacking, model, num_envs=2, length=2, seed=1)
    rows = [copied(dream.reset()), *(copied(dream.step(np.array([2, 2]))) for _ in range(6))]
    shown = np.stack([row.observation.ravel() for row in rows], 1)
    # The second one starts within an episode: 2 comes before 3, which the agent acts on.
    assert shown.tolist() == [[3, 5, 7, 3, 5, 7, 3], [2, 3, 5, 7, 3, 5, 7]]
    first = np.stack([row.first for row in rows], 1)
    assert first.tolist() == [[1, 0, 0, 1, 0, 0, 1], [1, 1, 0, 0, 1, 0, 0]]
    leads = np.isnan(np.stack([row.reward for row in rows], 1))
    assert leads.tolist() == [[0] * 7, [0, 1, 0, 0, 0, 0, 0]]
    assert [one.length for one in dream.episodes()] == [2] * 4


def test_what_is_carried_starts_anew_with_each_dream(dream):
    seen = []

    def watched(stacks, actions, state):
        seen.append(state.ravel().tolist())
        return predict(stacks, actions, state)

    dream._model = dream._model._replace(predict=watched)
    dream.reset()
    for _ in range(5):
        dream.step(np.array([0, 0]))
    assert seen == [[0, 0], [1, 1], [2, 2], [3, 3], [0, 0]]


def test_a_dream_can_be_drawn(dream):
    dream.reset()
    assert dream.render(0).shape == (1, 1, 3)


def test_what_a_level_measures_is_not_known_in_dreams(dream):
    spec = dataclasses.replace(SPEC, measures=(Measure("reaction_time", "reaction"),))
    dream = DreamEnvironment(spec, dream._model, num_envs=2, length=3, seed=1)
    dream.reset()
    assert np.isnan(dream.figures()["reaction_time"]).tolist() == [True, True]
