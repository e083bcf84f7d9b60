"""Targets of DQN against rlax and by hand; exploration; the target network."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from algorithms.algorithm import Loss
from algorithms.dqn import DQN
from algorithms.feeding import IMPORTANCE, Replayed
from algorithms.trajectory import Unroll
from tests.rlax_process import evaluated, needs_rlax
from tests.trainer.levels import Pictures, Steps, level
from tests.trainer.training import Parts, endless, parts, small, values_of
from trainer import build
from trainer.learning.batches import Batch, cut
from trainer.learning.minibatches import Passes
from trainer.learning.replayed import ReplayedBatches
from trainer.programs.stopping import StopSignal
from trainer.programs.training import Training
from trainer.reporting.metrics import Meter
from trainer.settings.config import Settings
from transport import messages
from user_error import UserError


def made(algorithm: str = "dqn", **changes: Any) -> Parts:
    chosen: dict[str, Any] = {
        "algorithm": algorithm,
        "reward_clipping": "none",
        "replay_warm_up": 60,
        "batch_size": 64,
        "updates_per_step": 0.5,
        "publish_every_updates": 1,
        "replay_steps": 1000,
        "learning_rate": 0.001,
        "normalise_observations": False,
    }
    return parts(small(level(Steps), **chosen | changes))


def learns(of: Parts) -> DQN:
    """The learner's algorithm."""
    assert isinstance(of.learner.algorithm, DQN)
    return of.learner.algorithm


def feeder(of: Parts) -> ReplayedBatches:
    nobody: Any = None  # a replay store never asks actors for anything
    found = build.batches(of.settings, of.spec, of.learner.agent, nobody, print)
    assert isinstance(found, ReplayedBatches)
    return found


def drawn(of: Parts, batches: ReplayedBatches | None = None) -> Unroll:
    """A batch from what an actor plays."""
    actor, batches = of.actor(), batches or feeder(of)
    while True:
        batch = batches.next(actor.unroll)
        if batch:
            return batch.unrolls


def values(agent: Any, batch: Unroll) -> np.ndarray:
    """[rows, B, A] of an agent that sees single rows."""
    step = batch.environment
    output, _ = agent(step.observation, step.reward, batch.action, step.first, batch.initial_state)
    return output.policy.numpy()


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({"replay_steps": 7, "envs_per_actor": 4, "unroll_length": 1, "n_steps": 1}, 8),
        ({"replay_steps": 63, "envs_per_actor": 4, "unroll_length": 4, "n_steps": 13}, 64),
        # Enough for two unrolls of each, but not for those before which streams begin.
        ({"replay_steps": 47, "envs_per_actor": 4, "unroll_length": 4, "n_steps": 5}, 48),
    ],
)
def test_a_replay_in_which_no_window_has_room_is_refused(changes, least):
    with pytest.raises(UserError, match=f"expected {least} or more for 4 environments"):
        feeder(made(num_actors=1, **changes))
    feeder(made(num_actors=1, **changes | {"replay_steps": least}))


@pytest.mark.parametrize(("steps", "most"), [(63, 3), (64, 4)])
def test_a_learner_takes_as_many_environments_of_an_actor_elsewhere_as_have_room(steps, most):
    one = made(num_actors=1, replay_steps=steps, envs_per_actor=3, unroll_length=4, n_steps=13)
    assert build.most_unrolls(one.settings, one.spec, one.learner.agent) == most
    impala = Settings(level_name=one.spec.level_name)
    assert build.most_unrolls(impala, one.spec, one.learner.agent) is None


def test_burn_in_without_an_lstm_is_refused():
    with pytest.raises(UserError, match="--burn_in=2: the agent has no LSTM"):
        feeder(made(burn_in=2, unroll_length=6))
    feeder(made(burn_in=2, unroll_length=6, agent_name="VectorLSTMAgent"))


@needs_rlax
@pytest.mark.parametrize("algorithm", ["dqn", "double_dqn"])
def test_errors_of_single_steps_are_rlaxs(algorithm):
    of = made(algorithm, discounting=0.9, n_steps=1)
    learning = learns(of)
    for variable in learning._target.variables:  # a target network that differs
        variable.assign_add(0.1 * tf.ones_like(variable))
    batch = drawn(of)
    step = batch.environment
    prepared = learning.prepare(of.learner.agent, batch)
    loss = learning.loss(of.learner.agent, batch, prepared)
    mine, theirs = values(of.learner.agent, batch), values(learning._target, batch)
    assert step.terminated[1].any() and not step.first[1].any()
    call = "rlax.double_q_learning" if algorithm == "double_dqn" else "rlax.q_learning"
    also = ", chooses" if algorithm == "double_dqn" else ""
    errors = evaluated(
        f"jax.vmap({call})(q, action, reward, discount, target{also})",
        q=mine[0],
        action=batch.action[1],
        reward=step.reward[1],
        discount=np.float32(0.9) * ~step.terminated[1],
        target=theirs[1],
        chooses=mine[1],
    )
    np.testing.assert_allclose(loss.samples["error"][0], np.abs(errors), rtol=1e-4, atol=1e-5)


@needs_rlax
@pytest.mark.parametrize("algorithm", ["dqn", "double_dqn"])
def test_errors_of_several_steps_are_rlaxs(algorithm):
    of = made(algorithm, discounting=0.9, n_steps=3)
    learning = learns(of)
    for variable in learning._target.variables:
        variable.assign_add(0.1 * tf.ones_like(variable))
    batch = drawn(of)
    step = batch.environment
    loss = learning.loss(of.learner.agent, batch, learning.prepare(of.learner.agent, batch))
    mine, theirs = values(of.learner.agent, batch), values(learning._target, batch)
    chooses = np.argmax(mine if algorithm == "double_dqn" else theirs, axis=-1)
    best = np.take_along_axis(theirs, chooses[..., None], axis=-1)[..., 0]
    assert step.terminated[1:].any() and step.first[2:].any() and not step.first[1].any()
    # A reset is no step: what was before ends with the value of its last row.
    errors = evaluated(
        "jax.vmap(lambda q, a, v, b, r, d: rlax.transformed_n_step_q_learning(q, a, v, b, r, d, 3),"
        " 1, 1)(q, action, target, chosen, reward, discount)",
        q=mine[:-1],
        action=batch.action[1:],
        target=theirs[1:],
        chosen=chooses[1:],
        reward=np.where(step.first[1:], best[:-1], step.reward[1:]),
        discount=np.float32(0.9) * ~(step.terminated[1:] | step.first[1:]),
    )
    assert len(errors) == 3  # the first has three steps
    np.testing.assert_allclose(loss.samples["error"][0], np.abs(errors[0]), rtol=1e-4, atol=1e-5)


def test_targets_of_several_steps_end_with_the_episode():
    of = made(n_steps=3, discounting=0.9)
    learning, batch = learns(of), drawn(of)
    step = batch.environment
    assert len(batch.action) == 4
    prepared = learning.prepare(of.learner.agent, batch).numpy()
    best = values(learning._target, batch).max(axis=-1)
    kinds = set()
    for column in range(64):
        over = [t for t in (1, 2, 3) if step.terminated[t, column]]
        last = over[0] if over else 3
        wanted = sum(0.9 ** (t - 1) * step.reward[t, column] for t in range(1, last + 1))
        wanted += 0 if over else 0.9**3 * best[3, column]
        assert prepared[0, column] == pytest.approx(wanted, rel=1e-4)
        kinds.add(last if over else 0)
    assert kinds == {0, 1, 2, 3}


def test_windows_of_stacked_frames_show_what_the_actor_saw():
    of = parts(
        small(
            level(Pictures), algorithm="dqn", width=36, height=36, frame_stack=3, batch_size=8,
            replay_warm_up=60, replay_steps=1000, updates_per_step=0.5, unroll_length=5,
        )
    )  # fmt: skip
    learning, agent = learns(of), of.learner.agent
    batches, blocks, actor = feeder(of), [], of.actor()

    def take() -> Unroll:
        blocks.append(actor.unroll())
        return blocks[-1]

    batch = None
    while batch is None:
        batch = batches.next(take)
    _, got = learning._values(agent, batch.unrolls)
    seen = {}  # by the bytes of a row's observation, the values there
    for block in blocks:
        for t, row in enumerate(values(agent, block)):
            for column, value in enumerate(row):
                seen[block.environment.observation[t, column].tobytes()] = value
    rows = batch.unrolls.environment.observation[2:]
    for t in range(2):
        for column in range(8):
            wanted = seen[rows[t, column].tobytes()]
            np.testing.assert_allclose(got[t, column], wanted, rtol=1e-3, atol=1e-4)


def test_an_agent_with_an_lstm_goes_on_from_its_stored_state_after_a_burn_in():
    of = made(agent_name="VectorLSTMAgent", burn_in=2, n_steps=2, unroll_length=6)
    learning, batch = learns(of), drawn(of)
    assert batch.initial_state.lstm.hidden.any()
    rows, found = learning._values(of.learner.agent, batch)
    whole = values(of.learner.agent, batch)
    assert len(found) == len(whole) - 2 == 8 and len(rows.action) == 8
    np.testing.assert_allclose(found, whole[2:], rtol=1e-4, atol=1e-5)
    assert learning.prepare(of.learner.agent, batch).shape == (6, 64)


def test_a_dueling_agent_s_advantages_have_no_mean():
    of = made(dueling=True)
    batch = drawn(of)
    step = batch.environment
    output, _ = of.learner.agent(
        step.observation, step.reward, batch.action, step.first, batch.initial_state
    )
    _, found = learns(of)._values(of.learner.agent, batch)
    np.testing.assert_allclose(tf.reduce_mean(found, -1), output.baseline, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(tf.argmax(found, -1), tf.argmax(output.policy, -1))


def test_errors_count_by_their_importance_and_become_priorities():
    of = made("double_dqn", importance_exponent=1.0)
    batches, actor = feeder(of), of.actor()
    batch = None
    while batch is None:
        batch = batches.next(actor.unroll)
    learning, agent = learns(of), of.learner.agent
    prepared = learning.prepare(agent, batch.unrolls)
    whole = learning.loss(agent, batch.unrolls, prepared)
    halved = batch.unrolls.recorded[IMPORTANCE] * np.float32(0.5)
    half = learning.loss(agent, batch.unrolls._replace(recorded={IMPORTANCE: halved}), prepared)
    assert float(half.total) == pytest.approx(float(whole.total) / 2, rel=1e-5)
    # Only one window of all that were drawn has an error from now on: it is drawn far more often.
    window, drawings = batches._indices[batch.number][0], []
    for _ in range(60):
        indices = batches._indices[batch.number]
        errors = np.where(indices == window, 1000.0, 0.0).astype(np.float32)
        batches.learned(batch.number, errors[np.newaxis])
        batch = None
        while batch is None:
            batch = batches.next(actor.unroll)
        drawings.append(np.mean(batches._indices[batch.number] == window))
    assert np.mean(drawings) > 3 / batches._store.windows


def test_exploration_falls_and_environments_on_a_ladder_explore_to_different_degrees():
    learning = learns(made(exploration_steps=1060, exploration_end=0.1))
    alike = np.zeros(3, np.float32)
    chances = [learning.exploration(updates, alike)[0] for updates in (0, 1, 250, 500, 10**9)]
    assert chances[0] == 1.0 and chances == sorted(chances, reverse=True)
    assert chances[2] == pytest.approx(0.1 + 0.9 * (1 - (500 + 60) / 1060), rel=1e-4)
    assert chances[3] == chances[4] == pytest.approx(0.1)
    ladder = learns(made(exploration_ladder=7.0, exploration_end=0.4))
    found = ladder.exploration(10**9, np.array([0.0, 0.5, 1.0], np.float32))
    assert found == pytest.approx([0.4, 0.4**4.5, 0.4**8])


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_random_actions_come_with_their_chance(chance):
    of = made()
    agent, learning = of.learner.agent, learns(of)
    output = of_a_thousand_rows(agent)
    given = tf.fill([1000], np.float32(chance))
    action, recorded = learning.act(agent, output, tf.constant([1, 2]), chance=given)
    best = np.argmax(output.policy, axis=-1)
    assert recorded == {}
    assert np.mean(action.numpy() != best) == pytest.approx(chance / 2, abs=0.05)
    greedy, _ = learning.act(agent, output, tf.constant([1, 2]), greedy=True)
    np.testing.assert_array_equal(greedy, best)


@pytest.mark.parametrize(("ladder", "chance"), [(0.0, 0.4), (1.0, 0.16), (7.0, 0.0007)])
def test_tests_explore_as_little_as_any_environment_of_the_training(ladder, chance):
    of = made(exploration_ladder=ladder, exploration_end=0.4)
    output = of_a_thousand_rows(of.learner.agent)
    action, _ = learns(of).act(of.learner.agent, output, tf.constant([1, 2]))
    others = np.mean(action.numpy() != np.argmax(output.policy, axis=-1))
    assert others == pytest.approx(chance / 2, abs=0.05)  # half of the random ones are the best
    assert ladder < 7.0 or others < 0.01


def of_a_thousand_rows(agent: Any) -> Any:
    """The agent's output for rows of zeros, [1000, ...]."""
    zeros = np.zeros([1, 1000], np.float32)
    observation = np.zeros([1, 1000, 2], np.float32)
    output, _ = agent(
        observation, zeros, zeros.astype(np.int32), zeros > 0, agent.initial_state(1000)
    )
    return tf.nest.map_structure(lambda rows: rows[0], output)


def test_updates_drawn_together_are_those_made_one_by_one():
    same: dict[str, Any] = {"target_every": 2, "learning_rate": 0.01}
    at_once, by_one = made(**same, publish_every_updates=4), made(**same)
    for mine, theirs in zip(at_once.learner.variables, by_one.learner.variables, strict=True):
        mine.assign(theirs)
    batch = drawn(at_once)
    passes = Passes(epochs=1, minibatches=4, piece_length=0, pieces=256, drawn=True)
    many = at_once.learner.learn_alone(batch, passes, run_left=1.0)
    assert len(many) == at_once.learner.updates == 4
    for number, found in enumerate(many):
        some = cut(batch, 64 * number, 64 * (number + 1))
        expected = by_one.learner.update(some, run_left=1.0)
        assert found.figures == pytest.approx(expected.figures, rel=1e-3, abs=1e-5)
        np.testing.assert_allclose(
            found.samples["error"], expected.samples["error"], rtol=1e-3, atol=1e-5
        )
    for mine, theirs in zip(
        values_of(at_once.learner.variables), by_one.learner.variables, strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)


def test_each_batch_that_was_drawn_with_others_counts_when_it_is_skipped():
    of = made(publish_every_updates=8, max_skipped_updates=3, total_environment_frames=1000)
    unrolls = drawn(of)
    reward = np.full_like(unrolls.environment.reward, np.nan)
    spoiled = unrolls._replace(environment=unrolls.environment._replace(reward=reward))
    batch = Batch(spoiled, steps=16, weights_version=0.0)
    training = training_of(of, endless(batch))
    with pytest.raises(SystemExit):
        training.run()
    meter = training._meter
    assert meter.skipped_in_a_row == meter.skipped_updates == 3
    assert meter.agent_steps == 16


@pytest.mark.parametrize("in_one_call", [True, False])
def test_priorities_are_made_of_errors_whatever_else_is_shown(monkeypatch, in_one_call):
    plain = DQN.loss

    def with_values(algorithm: DQN, *given: Any) -> Loss:
        loss = plain(algorithm, *given)
        return loss._replace(samples={"value": -1.0 - loss.samples["error"], **loss.samples})

    monkeypatch.setattr(DQN, "samples", ("value", "error"))
    monkeypatch.setattr(DQN, "loss", with_values)
    of = made("double_dqn", total_environment_frames=1)
    learned: list[np.ndarray] = []
    actors = endless(Batch(drawn(of), steps=16, weights_version=0.0))
    actors.learned = lambda _, errors: learned.append(errors)
    training = training_of(of, actors)
    training._in_one_call = in_one_call
    training.run()
    assert len(learned) == 1 and (learned[0] >= 0.0).all() and learned[0].any()


def test_an_algorithm_without_errors_cannot_learn_from_a_replay(monkeypatch):
    monkeypatch.setattr(DQN, "samples", ())
    with pytest.raises(UserError, match="its samples are none, and .* expected error among them"):
        training_of(made(), endless(None))


def training_of(of: Parts, actors: Any) -> Training:
    meter = Meter(of.settings.level.levels, 1, {}, of.learner.figures)
    return Training(of.settings, of.learner, meter, actors, StopSignal(), run=None)


@pytest.mark.parametrize(("step", "every"), [(0.0, 3), (0.25, 1)])
def test_the_target_network_follows(step, every):
    of = made(target_step=step, target_every=every)
    learner, learning = of.learner, learns(of)
    batch = drawn(of)
    for update in range(1, 7):
        before = [variable.numpy() for variable in learning._target.variables]
        learner.update(batch, run_left=1.0)
        for old, mine, theirs in zip(
            before, learning._target.variables, learner.agent.variables, strict=True
        ):
            copied = theirs if update % every == 0 else old
            wanted = old + step * (theirs - old) if step else copied
            np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("together", [1, 4])
def test_the_ratio_of_updates_to_steps_is_kept(together):
    of = made(updates_per_step=0.25, replay_warm_up=40, publish_every_updates=together)
    batches, actor, played, updates = feeder(of), of.actor(), 0, 0
    assert isinstance(of.settings.algorithm.feeding, Replayed)

    def take() -> Unroll:
        nonlocal played
        block = actor.unroll()
        played += int((~block.environment.first[1:]).sum())
        return block

    steps = 0
    while updates < 100:
        batch = batches.next(take)
        if batch:
            assert batch.unrolls.action.shape[1] == 64 * together
            updates += together
            steps += batch.steps
    assert updates == pytest.approx(0.25 * (played - 40), abs=6)
    assert played - 20 <= steps <= played


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({"exploration_steps": 10}, "exploration_steps is 50000 at the learner and 10 at"),
        ({"updates_per_step": 1.0}, "updates_per_step"),  # exploration falls with the updates
        ({"replay_steps": 500, "target_every": 9, "learning_rate": 0.1}, ""),  # the learner's
    ],
)
def test_an_actor_that_explores_otherwise_is_refused(changes, differing):
    learner, actor = (
        build.identity(one.settings, one.spec, one.learner.agent, layout)
        for one in (made(), made(**changes))
        for layout in [build.blocks(one.settings, one.spec, one.learner.agent, None)]
    )
    found = messages.differences(learner, actor)
    assert (differing in found) if differing else not found
