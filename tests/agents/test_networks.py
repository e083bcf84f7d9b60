"""The networks have the documented layers, and all of them get gradients."""

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

import agents

ATARI = gym.spaces.Box(0, 255, (84, 84, 1), np.uint8)
VECTOR = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
SIX = gym.spaces.Discrete(6)

CONVOLUTIONS = {
    "SimpleConvNetAgent": [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64)],
    "ResNetAgent": [
        *[(3, 3, 4, 16), *[(3, 3, 16, 16)] * 4],
        *[(3, 3, 16, 32), *[(3, 3, 32, 32)] * 4],
        *[(3, 3, 32, 32), *[(3, 3, 32, 32)] * 4],
    ],
}
CONVOLUTIONS["StarterLSTMAgent"] = [(3, 3, 4, 32), *[(3, 3, 32, 32)] * 3]
CONVOLUTIONS["ResNetLSTMAgent"] = CONVOLUTIONS["ResNetAgent"]
# Inputs and outputs. The last reward and the one-hot of the last of six actions join the features.
LINEAR = {
    "SimpleConvNetAgent": [(7 * 7 * 64, 512), (512 + 1 + 6, 6), (512 + 1 + 6, 1)],
    "ResNetAgent": [(11 * 11 * 32, 256), (256 + 1 + 6, 6), (256 + 1 + 6, 1)],
    "ResNetLSTMAgent": [(11 * 11 * 32, 256), (256, 6), (256, 1)],
    "StarterLSTMAgent": [(256, 6), (256, 1)],
    "VectorAgent": [(4 * 4, 64), (64, 64), (64 + 1 + 6, 6), (64 + 1 + 6, 1)],
    "VectorLSTMAgent": [(4 * 4, 64), (64, 64), (64, 6), (64, 1)],
}
LSTM = {
    "ResNetLSTMAgent": [(256 + 1 + 6, 4 * 256), (256, 4 * 256)],
    "StarterLSTMAgent": [(6 * 6 * 32 + 1 + 6, 4 * 256), (256, 4 * 256)],
    "VectorLSTMAgent": [(64 + 1 + 6, 4 * 64), (64, 4 * 64)],
}


def make(name, **options):
    space = VECTOR if name.startswith("Vector") else ATARI
    return agents.make(name, space, SIX, frame_stack=4, **options)


def rows_for(name, rows=2, batch=2):
    random = np.random.default_rng(0)
    if name.startswith("Vector"):
        observation = random.uniform(-1, 1, (rows, batch, 4)).astype(np.float32)
    else:
        observation = random.integers(0, 256, (rows, batch, 84, 84, 1)).astype(np.uint8)
    reward = np.ones((rows, batch), np.float32)
    action = np.arange(rows * batch, dtype=np.int32).reshape(rows, batch)
    return [tf.constant(x) for x in (observation, reward, action, np.zeros((rows, batch), bool))]


@pytest.mark.parametrize("name", agents.known_agents())
def test_layers_have_their_sizes(name):
    shapes = [tuple(variable.shape) for variable in make(name).trainable_variables]
    kernels = [shape for shape in shapes if len(shape) == 4]
    assert sorted(kernels) == sorted(CONVOLUTIONS.get(name, []))
    lstm = LSTM.get(name, [])
    matrices = [*lstm, *[(outputs, inputs) for inputs, outputs in LINEAR[name]]]
    assert sorted(shape for shape in shapes if len(shape) == 2) == sorted(matrices)
    biases = sum(shape[0] for shape in shapes if len(shape) == 1)
    assert biases == sum(shape[-1] for shape in kernels + LINEAR[name] + lstm[:1])


@pytest.mark.parametrize("name", agents.known_agents())
def test_outputs_have_their_shapes(name):
    agent = make(name, compute_dtype=tf.bfloat16)
    output, state = agent(*rows_for(name, rows=3), agent.initial_state(2))
    assert output.policy.shape == [3, 2, 6] and output.policy.dtype == tf.float32
    assert output.baseline.shape == [3, 2] and output.baseline.dtype == tf.float32
    before = agent.initial_state(2)
    tf.nest.assert_same_structure(before, state)
    for old, new in zip(tf.nest.flatten(before), tf.nest.flatten(state), strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)


@pytest.mark.parametrize("name", agents.known_agents())
def test_an_agent_that_sees_one_frame_carries_no_frames(name):
    space = VECTOR if name.startswith("Vector") else ATARI
    state = agents.make(name, space, SIX).initial_state(2)
    assert len(tf.nest.flatten(state)) == (2 if "LSTM" in name else 0)


@pytest.mark.parametrize("name", agents.known_agents())
def test_gradients_reach_every_variable(name):
    agent = make(name, seed=0)
    with tf.GradientTape() as tape:
        output, _ = agent(*rows_for(name), agent.initial_state(2))
        loss = tf.reduce_sum(output.baseline**2) + tf.reduce_sum(output.policy**2)
    for variable, gradient in zip(
        agent.trainable_variables, tape.gradient(loss, agent.trainable_variables), strict=True
    ):
        assert gradient is not None and np.any(gradient != 0), variable.name


@pytest.mark.parametrize("name", agents.known_agents())
def test_half_the_bits_give_nearly_the_same_output(name):
    exact = make(name, seed=3)
    rows = rows_for(name)
    expected, _ = exact(*rows, exact.initial_state(2))
    for weights in tf.float32, tf.bfloat16:
        agent = make(name, seed=3, compute_dtype=tf.bfloat16, weights_dtype=weights)
        output, _ = agent(*rows, agent.initial_state(2))
        np.testing.assert_allclose(output.baseline, expected.baseline, atol=0.03)
        np.testing.assert_allclose(output.policy, expected.policy, atol=1e-3)


def test_weights_are_copied_in_order_to_an_acting_agent_of_fewer_bits():
    learning = make("SimpleConvNetAgent", seed=1, compute_dtype=tf.bfloat16)
    acting = make(
        "SimpleConvNetAgent", seed=2, compute_dtype=tf.bfloat16, weights_dtype=tf.bfloat16
    )
    pairs = list(zip(acting.trainable_variables, learning.trainable_variables, strict=True))
    for copy, original in pairs:
        copy.assign(tf.cast(original, copy.dtype))
    heads = [copy for copy, _ in pairs if copy.dtype == tf.float32]
    assert sorted(tuple(head.shape) for head in heads) == [(1,), (1, 519), (6,), (6, 519)]
    rows = rows_for("SimpleConvNetAgent")
    acted, _ = acting(*rows, acting.initial_state(2))
    learned, _ = learning(*rows, learning.initial_state(2))
    np.testing.assert_allclose(acted.policy, learned.policy, atol=1e-3)


@pytest.mark.parametrize("name", ["SimpleConvNetAgent", "VectorLSTMAgent"])
def test_the_same_seed_gives_the_same_weights(name):
    one, same, other = make(name, seed=4), make(name, seed=4), make(name, seed=5)
    fewer_bits = make(name, seed=4, compute_dtype=tf.bfloat16)
    for a, b, c in zip(one.variables, same.variables, fewer_bits.variables, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    assert any(np.any(a != b) for a, b in zip(one.variables, other.variables, strict=True))


@pytest.mark.parametrize("name", agents.known_agents())
def test_policies_start_out_uniform(name):
    agent = make(name, seed=0)
    output, _ = agent(*rows_for(name), agent.initial_state(2))
    np.testing.assert_allclose(tf.nn.softmax(output.policy), 1 / 6, atol=0.02)


@pytest.mark.parametrize("shape", [(36, 36, 1), (45, 37, 3), (96, 96, 3)])
@pytest.mark.parametrize("name", ["SimpleConvNetAgent", "ResNetAgent"])
def test_images_of_other_sizes_are_seen(name, shape):
    agent = agents.make(name, gym.spaces.Box(0, 255, shape, np.uint8), SIX, frame_stack=2)
    _, reward, action, first = rows_for("Vector", 1, 1)
    observation = tf.ones([1, 1, *shape], tf.uint8)
    output, _ = agent(observation, reward, action, first, agent.initial_state(1))
    assert output.policy.shape == [1, 1, 6]


def test_numbers_of_any_size_are_scaled_to_about_one():
    high = np.array([4.8, np.inf, 3e38, 255], np.float32)
    space = gym.spaces.Box(np.array([-4.8, -np.inf, -3e38, 0], np.float32), high)
    agent = agents.make("VectorAgent", space, SIX)
    prepared = agent._torso.prepare(tf.constant([[[4.8, 1e6, -1e6, 127.5]]]))
    np.testing.assert_allclose(prepared[0, 0], [1, np.log(1e6), -np.log(1e6), 0], rtol=1e-4)
