"""Bodies that differ get exactly what an agent of their own kind would compute, and learn alone."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

import agents
from agents import FORBIDDEN, BodyKind, Heads, Network, distribution_for
from agents.kinds.distribution import OfKinds
from agents.kinds.normaliser import KindsNormaliser
from agents.normaliser import Normaliser
from user_error import UserError

T, B = 3, 4
POLE = BodyKind(gym.spaces.Box(-2, 2, (2,), np.float32), gym.spaces.Discrete(2))
ARM = BodyKind(
    gym.spaces.Box(-np.inf, np.inf, (5,), np.float32), gym.spaces.Box(-3, 1, (2,), np.float32)
)
WALKER = BodyKind(gym.spaces.Box(0, 9, (3,), np.float32), gym.spaces.Discrete(4))
KEYS = BodyKind(gym.spaces.Box(-1, 1, (1,), np.float32), gym.spaces.MultiDiscrete([3, 2]))
PICTURE = gym.spaces.Box(0, 255, (40, 40, 1), np.uint8)
random = np.random.default_rng(0)


def of_kinds(kinds: tuple[BodyKind, ...], name: str = "VectorAgent", **more: Any) -> Any:
    """An agent for all of them; weights get noise, as a fresh policy is uniform."""
    options: dict[str, Any] = {"masked": False, "normalise": False} | more.pop("network", {})
    longest = max(kind.observation_space.shape[0] for kind in kinds)
    seen = gym.spaces.Box(-9, 9, (longest + 1,), np.float32)
    if len(kinds[0].observation_space.shape) == 3:
        seen = kinds[0].observation_space
    discrete = all(isinstance(kind.action_space, gym.spaces.Discrete) for kind in kinds)
    space = gym.spaces.Discrete(4) if discrete else gym.spaces.Box(-1, 1, (2,), np.float32)
    agent: Any = agents.make(
        name, seen, space, network=Network(kinds=kinds, **options), seed=1, **more
    )
    for weight in agent.trainable_variables:
        weight.assign_add(0.1 * random.normal(size=weight.shape).astype(np.float32))
    return agent


def rows_of(kinds: tuple[BodyKind, ...], numbers: list[int], stack: int = 1) -> list[tf.Tensor]:
    """Rows [T, B] of bodies, their last actions, and where episodes start."""
    longest = max(kind.observation_space.shape[0] for kind in kinds)
    seen = np.zeros([T, B, longest + 1], np.float32)
    wide = max(int(np.prod(kind.action_space.shape or ())) for kind in kinds)
    real = any(isinstance(kind.action_space, gym.spaces.Box) for kind in kinds)
    taken = np.zeros([T, B, wide], np.float32 if real else np.int32)
    for column, number in enumerate(numbers):
        size = kinds[number].observation_space.shape[0]
        seen[:, column, :size] = random.normal(size=[T, size])
        seen[:, column, -1] = number
        for row in range(T):
            action = np.ravel(kinds[number].action_space.sample())
            taken[row, column, : len(action)] = action
    action = taken if wide > 1 or real else taken[..., 0]
    reward = random.normal(size=[T, B]).astype(np.float32)
    first = np.zeros([T, B], bool)
    first[1, 1] = True
    return [tf.constant(one) for one in (seen, reward, action, first)]


def alone(agent: Any, kinds: tuple[BodyKind, ...], number: int, **more: Any) -> Any:
    """An agent of one kind, with the weights that the agent of all has for that kind."""
    kind, whole = kinds[number], agent
    one: Any = agents.make("VectorAgent", *kind, **more)
    torso, mine = whole._torso, one._torso
    mine._layers[0].weights.assign(torso._inputs[number].weights)
    mine._layers[0].bias.assign(torso._inputs[number].bias)
    for ours, theirs in zip(mine._layers[1:], torso._layers, strict=True):
        ours.weights.assign(theirs.weights)
        ours.bias.assign(theirs.bias)
    head = whole._policy._heads[number]
    inputs = one._policy.weights.shape[1]  # it knows fewer last actions
    one._policy.weights.assign(head.weights[:, :inputs])
    one._policy.bias.assign(head.bias)
    one.baseline_head.weights.assign(whole.baseline_head.weights[number : number + 1, :inputs])
    one.baseline_head.bias.assign(whole.baseline_head.bias[number : number + 1])
    return one


def of_column(rows: list[tf.Tensor], column: int, kind: BodyKind) -> list[tf.Tensor]:
    """A column of wide rows as an agent of its kind alone gets it."""
    seen, reward, action, first = (one[:, column : column + 1] for one in rows)
    own = action
    if kind.action_space.shape:
        own = action[..., : kind.action_space.shape[0]]
    elif len(action.shape) == 3:
        own = action[..., 0]
    if not isinstance(kind.action_space, gym.spaces.Box):
        own = tf.cast(own, tf.int32)
    return [seen[..., : kind.observation_space.shape[0]], reward, own, first]


@pytest.mark.parametrize(
    ("kinds", "stack"), [((POLE, WALKER), 1), ((POLE, ARM, KEYS), 1), ((WALKER, POLE), 3)]
)
def test_each_row_gets_what_an_agent_of_its_kind_alone_computes(kinds, stack):
    agent = of_kinds(kinds, frame_stack=stack)
    numbers = [column % len(kinds) for column in range(B)]
    rows = rows_of(kinds, numbers)
    with tf.GradientTape() as tape:
        output, _ = agent(*rows, agent.initial_state(B))
        log_prob = agent.distribution.log_prob(output.policy, rows[2])
        entropy = agent.distribution.entropy(output.policy)
        total = tf.reduce_sum(log_prob + 0.5 * entropy + output.baseline**2)
    expected: list[Any] = []
    heads: dict[int, Any] = dict.fromkeys(numbers, 0.0)
    for column, number in enumerate(numbers):
        one = alone(agent, kinds, number, frame_stack=stack)
        own = of_column(rows, column, kinds[number])
        with tf.GradientTape() as its_tape:
            its, _ = one(*own, one.initial_state(1))
            terms = (
                one.distribution.log_prob(its.policy, own[2]),
                one.distribution.entropy(its.policy),
                its.baseline,
            )
            its_total = tf.reduce_sum(terms[0] + 0.5 * terms[1] + terms[2] ** 2)
        expected.append([term[:, 0] for term in terms])
        heads[number] += its_tape.gradient(its_total, one._policy.weights).numpy()
    for name, ours, column in (("log_prob", log_prob, 0), ("entropy", entropy, 1),
                               ("baseline", output.baseline, 2)):  # fmt: skip
        theirs = np.stack([terms[column] for terms in expected], axis=1)
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5, err_msg=name)
    gradients = tape.gradient(total, agent.trainable_variables)
    assert all(np.isfinite(one).all() for one in gradients)
    with tf.GradientTape() as tape:
        output, _ = agent(*rows, agent.initial_state(B))
        total = tf.reduce_sum(
            agent.distribution.log_prob(output.policy, rows[2])
            + 0.5 * agent.distribution.entropy(output.policy)
        )
    found = tape.gradient(total, [head.weights for head in agent._policy._heads])
    for number, theirs in heads.items():
        ours = found[number].numpy()
        np.testing.assert_allclose(
            ours[:, : theirs.shape[1]], theirs, rtol=2e-4, atol=2e-4, err_msg=str(number)
        )
        assert not ours[:, theirs.shape[1] :].any()


def test_kinds_that_are_not_in_a_batch_learn_nothing_of_it():
    kinds = (POLE, ARM, WALKER)
    agent: Any = of_kinds(kinds)
    rows = rows_of(kinds, [1, 1, 1, 1])
    with tf.GradientTape() as tape:
        output, _ = agent(*rows, agent.initial_state(B))
        total = tf.reduce_sum(agent.distribution.log_prob(output.policy, rows[2]))
        total += tf.reduce_sum(output.baseline)
    own = [
        (agent._torso._inputs[number].weights, agent._policy._heads[number].weights)
        for number in range(3)
    ]
    moved = [
        [bool(tf.math.reduce_any(one != 0)) for one in part] for part in tape.gradient(total, own)
    ]
    assert moved == [[False, False], [True, True], [False, False]]


def test_actions_that_a_kind_does_not_have_are_never_chosen():
    kinds = (POLE, WALKER)
    agent = of_kinds(kinds)
    output, _ = agent(*rows_of(kinds, [0, 1, 0, 1]), agent.initial_state(B))
    assert (output.policy.numpy()[:, ::2, 2:] == FORBIDDEN).all()
    assert (output.policy.numpy()[:, 1::2] > FORBIDDEN / 2).all()
    flat = agent.distribution.tempered(output.policy, 50.0)
    drawn = [agent.distribution.sample(flat, (7, seed)).numpy() for seed in range(60)]
    assert np.unique(np.stack(drawn)[..., ::2]).tolist() == [0, 1]
    assert np.unique(np.stack(drawn)[..., 1::2]).tolist() == [0, 1, 2, 3]


def test_values_of_actions_are_masked_too():
    kinds = (POLE, WALKER)
    agent = of_kinds(kinds, heads=Heads(action_values=True))
    output, _ = agent(*rows_of(kinds, [0, 0, 0, 1]), agent.initial_state(B))
    assert (output.policy.numpy()[:, :3, 2:] == FORBIDDEN).all()
    with pytest.raises(Exception, match="counted"):
        of_kinds((POLE, ARM), heads=Heads(action_values=True))


def test_masks_of_a_level_are_read_where_its_kind_has_them():
    kinds = (POLE, BodyKind(gym.spaces.Box(-1, 1, (6,), np.float32), gym.spaces.Discrete(4)))
    agent = of_kinds(kinds, network={"masked": True})
    rows = rows_of(kinds, [0, 1, 0, 1])
    seen = rows[0].numpy()
    seen[:, 0, :2] = [0, 1]  # nothing but its mask
    seen[:, 1, 2:6] = [1, 0, 0, 1]
    output, _ = agent(tf.constant(seen), *rows[1:], agent.initial_state(B))
    allowed = output.policy.numpy() > FORBIDDEN / 2
    assert allowed[:, 0].tolist() == [[False, True, False, False]] * T
    assert allowed[:, 1].tolist() == [[True, False, False, True]] * T


@pytest.mark.parametrize("name", ["VectorLSTMAgent", "VectorAgent"])
def test_one_row_at_a_time_gives_what_a_whole_unroll_gives(name):
    kinds = (POLE, ARM)
    agent = of_kinds(kinds, name, frame_stack=2, network={"normalise": True})
    rows = rows_of(kinds, [0, 1, 0, 1])
    agent.backdrop.update(agent.backdrop.sums(agent.prepare(rows[0])))
    whole, _ = agent(*rows, agent.initial_state(B))
    state, steps = agent.initial_state(B), []
    for t in range(T):
        output, state = agent(*(one[t : t + 1] for one in rows), state)
        steps.append(output.policy[0])
    np.testing.assert_allclose(np.stack(steps), whole.policy, rtol=1e-4, atol=1e-5)


def test_pictures_of_one_size_share_all_but_the_heads():
    kinds = (BodyKind(PICTURE, gym.spaces.Discrete(2)), BodyKind(PICTURE, gym.spaces.Discrete(3)))
    agent = of_kinds(kinds, "SimpleConvNetAgent", frame_stack=2)
    seen = random.integers(0, 256, (T, B, 40, 40, 1)).astype(np.uint8)
    seen[:, :, 0, 0, 0] = [0, 1, 1, 0]
    rest = (tf.zeros([T, B]), tf.zeros([T, B], tf.int32), tf.zeros([T, B], bool))
    output, _ = agent(tf.constant(seen), *rest, agent.initial_state(B))
    allowed = output.policy.numpy()[0] > FORBIDDEN / 2
    assert allowed.sum(axis=-1).tolist() == [2, 3, 3, 2]


def test_each_kind_s_numbers_are_shown_in_units_of_their_own_spread():
    frame = tf.TensorSpec([4], tf.float32)
    both, single = (
        KindsNormaliser(frame, 2),
        [Normaliser(tf.TensorSpec([size], tf.float32)) for size in (3, 2)],
    )
    for _ in range(3):
        frames = np.zeros([40, 4], np.float32)
        frames[::2, :3] = random.normal(5, 3, (20, 3))
        frames[1::2, :2] = random.normal(-80, 0.1, (20, 2))
        frames[1::2, 3] = 1
        both.update(both.sums(tf.constant(frames)))
        for number, (one, size) in enumerate(zip(single, (3, 2), strict=True)):
            own = tf.constant(frames[number::2, :size])
            one.update(one.sums(own))
    shown = both.subtract_mean(tf.constant(frames), both.blank()).numpy()
    for number, (one, size) in enumerate(zip(single, (3, 2), strict=True)):
        own = tf.constant(frames[number::2, :size])
        expected = one.subtract_mean(own, one.blank())
        np.testing.assert_allclose(shown[number::2, :size], expected, rtol=1e-3, atol=1e-3)
    assert (shown[1::2, 2] == 0).all() and (shown[:, 3] == frames[:, 3]).all()
    blank = both.blank()
    assert not both.subtract_mean(blank[None], blank).numpy()[0, :3].any()


def test_a_mixed_distribution_acts_as_each_kind_s_own():
    spaces = [kind.action_space for kind in (POLE, ARM, KEYS)]
    mixed = OfKinds(spaces)
    marks = tf.constant(np.eye(3, dtype=np.float32)[[0, 1, 2, 1]])
    own = [random.normal(size=[4, distribution_for(one).parameter_count]) for one in spaces]
    parameters = mixed.joined([tf.constant(one, tf.float32) for one in own], marks)
    assert parameters.shape == [4, mixed.parameter_count] == [4, 5 + 3]
    modes = mixed.mode(parameters)
    sharp = mixed.tempered(parameters, 0.5)
    for row, number in enumerate([0, 1, 2, 1]):
        one = distribution_for(spaces[number])
        mine = tf.constant(own[number][row], tf.float32)
        taken = np.ravel(one.mode(mine))
        np.testing.assert_allclose(modes[row, : len(taken)], taken, rtol=1e-5)
        assert not modes[row, len(taken) :].numpy().any()
        np.testing.assert_allclose(
            sharp[row, : one.parameter_count], one.tempered(mine, 0.5), rtol=1e-5
        )
    sampled = mixed.sample(parameters, (1, 2))
    assert sampled.dtype == tf.float32 and sampled[0, 0] in (0.0, 1.0)
    assert mixed.encode(sampled, marks).shape == [4, mixed.encoding_size] == [4, 5]
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        log_prob = mixed.log_prob(parameters, sampled)
    unused = tape.gradient(log_prob, parameters).numpy()[0, 2:]
    assert not unused.any()


def test_of_the_kinds_whose_actions_are_numbers_an_untrained_policy_is_as_wide_as_is_chosen():
    biases = {}
    for deviation in (1.0, 0.5):
        seen = gym.spaces.Box(-9, 9, (6,), np.float32)
        space = gym.spaces.Box(-1, 1, (2,), np.float32)
        network = Network(kinds=(POLE, ARM), deviation=deviation)
        made: Any = agents.make("VectorAgent", seen, space, network=network, seed=1)
        biases[deviation] = [head.bias.numpy() for head in made._policy._heads]
    assert not any(bias.any() for bias in biases[1.0])
    pole, arm = biases[0.5]
    assert not pole.any()
    np.testing.assert_allclose(arm, [0, 0, np.log(0.5), np.log(0.5)], rtol=1e-6)
    with pytest.raises(UserError, match="--first_deviation=0.5 .*: for actions that are numbers"):
        of_kinds((POLE, WALKER), network={"deviation": 0.5})


def test_deviations_can_be_weights_of_their_own_which_a_kind_s_rows_share():
    kinds = (POLE, ARM)
    agent = of_kinds(kinds, network={"state_deviations": False, "deviation": 0.5})
    rows = rows_of(kinds, [1] * B)
    with tf.GradientTape() as tape:
        output, _ = agent(*rows, agent.initial_state(B))
        entropy = agent.distribution.entropy(output.policy)
    means, log_stds = np.split(output.policy.numpy()[..., :4], 2, axis=-1)
    assert np.ptp(means, axis=(0, 1)).all() and not np.ptp(log_stds, axis=(0, 1)).any()
    pole, arm = agent._policy._heads
    np.testing.assert_allclose(log_stds[0, 0], arm._log_stds.numpy())
    assert pole.weights.shape[0] == 2  # choices have none
    np.testing.assert_allclose(tape.gradient(entropy, arm._log_stds), [T * B] * 2)
