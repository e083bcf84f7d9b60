"""What users choose of a network: sizes of layers, masks, numbers in units of their spread."""

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

import agents
from agents import Network
from agents.normaliser import Normaliser
from agents.simple_conv_net import SimpleConvNetAgent
from user_error import UserError

PICTURES = gym.spaces.Box(0, 255, (84, 84, 1), np.uint8)
VECTOR = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)


def shapes(name: str, network: Network) -> list[tuple[int, ...]]:
    space = VECTOR if name.startswith("Vector") else PICTURES
    made = agents.make(name, space, gym.spaces.Discrete(3), network=network)
    return [tuple(variable.shape) for variable in made.trainable_variables]


def test_layers_have_the_sizes_that_are_chosen():
    vector = shapes("VectorAgent", Network(hidden=(32, 16, 8)))
    assert {(32, 5), (16, 32), (8, 16), (3, 8 + 1 + 3), (1, 8 + 1 + 3)} <= set(vector)
    assert (40, 4 * 20) not in vector
    lstm = shapes("VectorLSTMAgent", Network(lstm=20))
    assert {(64 + 1 + 3, 4 * 20), (20, 4 * 20), (3, 20)} <= set(lstm)
    convolutions = shapes("SimpleConvNetAgent", Network(channels=(4, 6, 8), hidden=(10,)))
    assert {(8, 8, 1, 4), (4, 4, 4, 6), (3, 3, 6, 8), (10, 8 * 7 * 7)} <= set(convolutions)
    sections = shapes("ResNetAgent", Network(channels=(4, 6), hidden=(12,)))
    assert {(3, 3, 1, 4), (3, 3, 4, 6), (12, 6 * 21 * 21)} <= set(sections)


@pytest.mark.parametrize(
    ("name", "network", "message"),
    [
        ("SimpleConvNetAgent", Network(channels=(4,)), "--channels=4: SimpleConvNetAgent needs 3"),
        ("ResNetAgent", Network(hidden=(4, 5)), "--hidden_sizes=4,5: a ResNet agent needs 1"),
        ("VectorAgent", Network(lstm=8), "--lstm_size=8: VectorAgent has no LSTM"),
        ("VectorAgent", Network(channels=(8, 9)), "--channels=8,9: VectorAgent has no convolution"),
        ("VectorLSTMAgent", Network(channels=(4,)), "--channels=4: VectorLSTMAgent has no convolu"),
        (
            "ResNetAgent",
            Network(activation="tanh"),
            "--activation=tanh is for agents of vectors, not for ResNetAgent",
        ),
        (
            "VectorAgent",
            Network(deviation=0.4),
            "--first_deviation=0.4 --state_deviations: for actions that are numbers; the level's a",
        ),
        (
            "VectorAgent",
            Network(state_deviations=False),
            "--first_deviation=1 --nostate_deviations: for actions that are numbers",
        ),
    ],
)
def test_sizes_that_an_agent_cannot_have_are_refused(name, network, message):
    with pytest.raises(UserError, match=message):
        shapes(name, network)


class PlainConvNet(SimpleConvNetAgent):
    """An own agent of pictures, which keeps no usual picture."""

    def make_torso(self, *given):
        torso = super().make_torso(*given)
        torso.backdrop = None
        return torso


@pytest.mark.parametrize("name", ["SimpleConvNetAgent", f"{__name__}:PlainConvNet"])
def test_agents_of_pictures_share_all_layers_with_the_baseline(name):
    asked = agents.Heads(separate=True)
    made = agents.make(name, PICTURES, gym.spaces.Discrete(3), heads=asked)
    assert made._baseline_torso is None
    with pytest.raises(UserError, match="--separate_baseline=on is for agents of vectors"):
        agents.make(name, PICTURES, gym.spaces.Discrete(3), network=Network(separate=True))


@pytest.mark.parametrize("name", ["VectorAgent", "VectorLSTMAgent"])
@pytest.mark.parametrize(
    ("heads", "chosen", "is_bounded"),
    [
        (agents.Heads(), "", True),
        (agents.Heads(), "relu", False),
        (agents.Heads(action_values=True, values=0), "", False),
        (agents.Heads(action_values=True, values=0), "tanh", True),
    ],
)
def test_values_of_actions_come_from_layers_without_bounds(name, heads, chosen, is_bounded):
    network = Network(activation=chosen)
    agent = agents.make(name, VECTOR, gym.spaces.Discrete(3), heads=heads, network=network, seed=1)
    features = agent._torso(tf.constant(np.array([[100, -100, 50, -50, 25]], np.float32))).numpy()
    assert (np.abs(features).max() <= 1) == is_bounded
    assert (features.min() < 0) == is_bounded


@pytest.mark.parametrize("deviation", [1.0, 0.37])
@pytest.mark.parametrize("by_state", [True, False])
def test_an_untrained_policy_spreads_numbers_as_wide_as_is_chosen(deviation, by_state):
    half_ranges = np.array([2.0, 3.0])
    space = gym.spaces.Box(np.array([-2, 0], np.float32), np.array([2, 6], np.float32))
    network = Network(deviation=deviation, state_deviations=by_state)
    agent = agents.make("VectorAgent", VECTOR, space, network=network, seed=1)
    seen = np.random.default_rng(1).normal(size=[1, 4000, 5]).astype(np.float32)
    zeros = np.zeros([1, 4000], np.float32)
    before, starts = np.zeros([1, 4000, 2], np.float32), zeros > 0
    output, _ = agent(seen, zeros, before, starts, agent.initial_state(4000))
    actions = agent.distribution.sample(output.policy[0], [1, 2]).numpy()
    np.testing.assert_allclose(actions.mean(axis=0), [0, 3], atol=0.2)
    np.testing.assert_allclose(actions.std(axis=0), deviation * half_ranges, rtol=0.05)
    means, deviations = np.split(output.policy[0].numpy(), 2, axis=-1)
    assert np.ptp(means, axis=0).all()
    assert np.ptp(deviations, axis=0).any() == by_state


def test_actions_that_a_mask_excludes_are_never_chosen_and_the_others_share_all_probability():
    seen = gym.spaces.Box(-1, 1, (2 + 4,), np.float32)
    agent = agents.make("VectorAgent", seen, gym.spaces.Discrete(4), network=Network(masked=True))
    mask = np.array([[0, 1, 1, 0], [1, 0, 0, 0]], np.float32)
    observation = np.concatenate([np.zeros([2, 2], np.float32), mask], axis=1)[None]
    zeros = np.zeros([1, 2], np.float32)
    output, _ = agent(observation, zeros, zeros.astype(np.int32), zeros > 0, agent.initial_state(2))
    probabilities = tf.nn.softmax(output.policy[0]).numpy()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert (probabilities[mask == 0] == 0).all() and (probabilities[0, 1:3] > 0.4).all()
    entropy = agent.distribution.entropy(output.policy[0]).numpy()
    assert entropy == pytest.approx([np.log(2), 0], abs=0.01)
    chosen = [agent.distribution.sample(output.policy[0], [seed, 0]).numpy() for seed in range(50)]
    assert {tuple(mask[range(2), action]) for action in chosen} == {(1.0, 1.0)}


def test_a_mask_of_a_game_that_is_over_excludes_nothing():
    seen = gym.spaces.Box(-1, 1, (2 + 3,), np.float32)
    heads = agents.Heads(action_values=True, values=0)
    network = Network(masked=True)
    agent = agents.make("VectorAgent", seen, gym.spaces.Discrete(3), heads=heads, network=network)
    observation = np.array([[[0, 0, 0, 0, 0], [0, 0, 0, 1, 0]]], np.float32)
    zeros = np.zeros([1, 2], np.float32)
    output, _ = agent(observation, zeros, zeros.astype(np.int32), zeros > 0, agent.initial_state(2))
    values = output.policy[0].numpy()
    assert np.abs(values[0]).max() < 100
    assert np.abs(values[1, 1]) < 100 and (values[1, [0, 2]] < -1e8).all()


def test_numbers_are_shown_in_units_of_their_spread_however_large_they_are():
    normaliser = Normaliser(tf.TensorSpec([3], tf.float32))
    random = np.random.default_rng(0)
    means, spreads = np.array([1e5, 0.0, -0.01]), np.array([30.0, 1.0, 0.001])

    def drawn() -> np.ndarray:
        return random.normal(means, spreads, size=[64, 3]).astype(np.float32)

    first = drawn()
    np.testing.assert_array_equal(normaliser.subtract_mean(first, normaliser.blank())[:, 1],
                                  np.clip(first[:, 1], -10, 10))  # fmt: skip
    for _ in range(100):
        one, other = drawn(), drawn()
        normaliser.update(normaliser.sums(one) + normaliser.sums(other))
    shown = normaliser.subtract_mean(drawn(), normaliser.blank()).numpy()
    assert np.abs(shown.mean(axis=0)).max() < 0.5
    np.testing.assert_allclose(shown.std(axis=0), 1, atol=0.3)
    before = [variable.numpy() for variable in normaliser.variables]
    normaliser.update(normaliser.nothing())
    for variable, old in zip(normaliser.variables, before, strict=True):
        np.testing.assert_array_equal(variable, old)


@pytest.mark.parametrize("behind", [0, 1, 7])
def test_a_spread_is_right_although_distances_are_from_an_older_mean(behind):
    normaliser = Normaliser(tf.TensorSpec([2], tf.float32))
    random = np.random.default_rng(behind)
    means, spreads = np.array([10.0, -3000.0]), np.array([1.0, 20.0])
    on_their_way = []  # what other processes have computed with the weights of before
    for _ in range(60):
        frames = random.normal(means, spreads, size=[64, 2]).astype(np.float32)
        on_their_way.append(normaliser.sums(frames))
        if len(on_their_way) > behind:
            normaliser.update(on_their_way.pop(0))
    frames = random.normal(means, spreads, size=[1000, 2]).astype(np.float32)
    shown = normaliser.subtract_mean(frames, normaliser.blank()).numpy()
    assert np.abs(shown.mean(axis=0)).max() < 0.2
    np.testing.assert_allclose(shown.std(axis=0), 1, atol=0.15)


class Simple:
    """An agent of one's own, without the argument."""

    distribution = initial_state = __call__ = None

    def __init__(self, observation_space, action_space, frame_stack, compute_dtype,
                 weights_dtype, seed):  # fmt: skip
        self.seen = observation_space


def test_an_agent_of_ones_own_needs_no_argument_for_choices_that_nobody_makes():
    name, three = "tests.agents.test_choices:Simple", gym.spaces.Discrete(3)
    made = agents.make(name, VECTOR, three, network=Network(normalise=True))
    assert made.seen == VECTOR
    with pytest.raises(UserError, match="Simple has no argument `network`, so --hidden_sizes"):
        agents.make(name, VECTOR, three, network=Network(hidden=(3,)))


@pytest.mark.parametrize(
    ("heads", "needed"),
    [
        (agents.Heads(separate=True), ""),  # PPO's and others': layers of one's own are as good
        (agents.Heads(action_values=True, values=0), "needs a value for each action"),
        (agents.Heads(values=3), "needs 3 values"),
    ],
)
def test_an_agent_of_ones_own_needs_no_argument_for_outputs_that_it_has(heads, needed):
    name, three = "tests.agents.test_choices:Simple", gym.spaces.Discrete(3)
    if not needed:
        assert agents.make(name, VECTOR, three, heads=heads).seen == VECTOR
        return
    with pytest.raises(UserError, match=f"Simple has no argument `heads`, .* {needed}"):
        agents.make(name, VECTOR, three, heads=heads)
