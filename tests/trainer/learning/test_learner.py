"""One update matches a plain NumPy version, for every agent and every kind of action."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from algorithms.trajectory import Unroll
from tests.trainer.levels import Continuous, Pictures, Steps, Tens, TwoChoices, level
from tests.trainer.training import Parts, block, parts, small, values_of
from trainer import build
from trainer.learning.batches import cut, join
from trainer.settings.config import Settings
from user_error import UserError

PLAIN: dict[str, Any] = {
    "popart": False,
    "entropy_cost": 0.01,
    "normalise_observations": False,
    "optimizer": "rmsprop",
    "momentum": 0.0,
    "decay": 0.9,
    "epsilon": 0.1,
    "vtrace_lambda": 0.9,
    "gradients_clipping": 0.0,
    "learning_rate": 0.01,
}
# Most agents of pictures have fewer weights with these.
TINY: dict[str, Any] = {"width": 36, "height": 36}


def played(made: Parts, blocks: int = 2) -> Unroll:
    """A block with ends of episodes, played with weights that are now old."""
    actor = made.actor()
    for _ in range(blocks):
        batch = actor.unroll()
    random = np.random.default_rng(5)
    for weight in made.learner.agent.trainable_variables:
        weight.assign_add(0.1 * random.normal(size=weight.shape).astype(np.float32))
    return batch


def plain_vtrace(log_rhos, rewards, discounts, values, bootstrap, lambda_):
    """Targets and advantages [T, B], row by row from the end."""
    rho = np.minimum(1.0, np.exp(log_rhos))
    next_values = np.concatenate([values[1:], bootstrap[None]])
    targets, advantages = np.zeros_like(values), np.zeros_like(values)
    next_target, correction = bootstrap, np.zeros_like(bootstrap)
    for t in reversed(range(len(values))):
        error = rho[t] * (rewards[t] + discounts[t] * next_values[t] - values[t])
        advantages[t] = rho[t] * (rewards[t] + discounts[t] * next_target - values[t])
        correction = error + discounts[t] * lambda_ * rho[t] * correction
        next_target = targets[t] = values[t] + correction
    return targets, advantages


def plain_gradients(agent: Any, batch: Unroll, settings: Settings) -> list[np.ndarray]:
    """Gradients of the loss written out: real transitions only, all with the same weight."""
    rows = batch.environment
    real = ~rows.first[1:]
    with tf.GradientTape() as tape:
        output, _ = agent(
            rows.observation, rows.reward, batch.action, rows.first, batch.initial_state
        )
        probabilities = tf.nn.softmax(output.policy[:-1])
        chosen = tf.gather(probabilities, batch.action[1:], batch_dims=2)
        values = output.baseline.numpy()
        rewards = np.where(real, np.clip(rows.reward[1:], -1, 1), values[:-1])
        discounts = np.where(real & ~rows.terminated[1:], settings.algorithm.discounting, 0.0)
        log_rhos = np.log(chosen.numpy()) - batch.recorded["log_prob"][1:]
        targets, advantages = plain_vtrace(
            log_rhos if settings.algorithm.correction == "vtrace" else np.zeros_like(log_rhos),
            rewards,
            discounts,
            values[:-1],
            values[-1],
            settings.algorithm.vtrace_lambda,
        )
        entropy = -tf.reduce_sum(probabilities * tf.math.log(probabilities), axis=-1)
        step_losses = (
            -tf.math.log(chosen) * advantages
            + settings.algorithm.baseline_cost * 0.5 * (output.baseline[:-1] - targets) ** 2
            - settings.algorithm.entropy_cost * entropy
        )
        loss = tf.reduce_sum(tf.boolean_mask(step_losses, real)) / real.sum()
    return [gradient.numpy() for gradient in tape.gradient(loss, agent.trainable_variables)]


# Without a correction only the targets differ, which are computed before.
@pytest.mark.parametrize(
    ("agent_name", "compiled", "correction"),
    [
        ("VectorAgent", False, "vtrace"),
        ("VectorAgent", True, "vtrace"),
        ("VectorLSTMAgent", False, "vtrace"),
        ("VectorLSTMAgent", True, "vtrace"),
        ("VectorAgent", False, "none"),
    ],
)
def test_an_update_moves_weights_by_the_gradient_of_the_plain_loss(
    agent_name, compiled, correction
):
    made = parts(small(level(Steps), agent_name=agent_name, correction=correction, **PLAIN))
    learner, settings = made.learner, made.settings
    batch = played(made)
    assert batch.environment.first[1:].any() and batch.environment.terminated.any()
    before = values_of(learner.weights)
    gradients = plain_gradients(learner.agent, batch, settings)
    if compiled:
        learner.compiler.with_xla = True
    statistics = learner.update(batch, run_left=1.0)
    norm = np.sqrt(sum(np.sum(np.float64(g) ** 2) for g in gradients))
    assert statistics.figures["gradient_norm"] == pytest.approx(norm, rel=1e-4)
    for weight, old, gradient in zip(learner.weights, before, gradients, strict=True):
        square = 0.9 + 0.1 * gradient**2
        wanted = old - 0.01 * gradient / np.sqrt(square + 0.1)
        np.testing.assert_allclose(weight.numpy(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("pieces", [2, 3, 9])
def test_an_update_in_pieces_equals_that_of_the_whole_batch(pieces):
    made = [
        parts(small(f"{level(Steps)},{level(Tens)}", num_actors=2, agent_name="VectorLSTMAgent"))
        for _ in range(2)
    ]
    actors = [made[0].actor(index) for index in range(2)]
    for _ in range(2):
        blocks = [actor.unroll() for actor in actors]
    batch = cut(join(blocks), 0, 5)
    # Pieces differ in size and in their number of real transitions.
    assert len(set(batch.environment.first[1:].sum(axis=0))) > 1
    whole = made[0].learner
    divided = build.learner_of(made[1].learner.agent, made[1].settings, pieces=pieces)
    for _ in range(3):
        wanted, got = (one.update(batch, 1.0) for one in (whole, divided))
    for mine, others in zip(divided.variables, whole.variables, strict=True):
        np.testing.assert_allclose(mine, others, rtol=1e-4, atol=1e-6)
    assert got.figures["gradient_norm"] == pytest.approx(wanted.figures["gradient_norm"], rel=1e-4)
    assert got.figures["total_loss"] == pytest.approx(wanted.figures["total_loss"], rel=1e-4)
    np.testing.assert_allclose(
        got.samples["advantage"], wanted.samples["advantage"], rtol=1e-4, atol=1e-5
    )


def test_gradients_beyond_the_largest_norm_are_clipped_to_it():
    free = parts(small(level(Steps), **PLAIN))
    batch = played(free)
    norm = free.learner.update(batch, 1.0).figures["gradient_norm"]
    for clipping in (norm / 10, norm * 10):
        made = parts(small(level(Steps), **PLAIN | {"gradients_clipping": float(clipping)}))
        played(made)
        learner = made.learner
        before = values_of(learner.weights)
        gradients = plain_gradients(learner.agent, batch, made.settings)
        reported = learner.update(batch, 1.0).figures["gradient_norm"]
        assert reported == pytest.approx(norm, rel=1e-4)  # before clipping
        for weight, old, gradient in zip(learner.weights, before, gradients, strict=True):
            clipped = gradient * min(1.0, clipping / norm)
            wanted = old - 0.01 * clipped / np.sqrt(0.9 + 0.1 * clipped**2 + 0.1)
            np.testing.assert_allclose(weight.numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_the_learning_rate_decays_to_0_at_the_end_of_the_run():
    made = parts(small(level(Steps), **PLAIN))
    batch, learner = played(made), made.learner
    start, slots = values_of(learner.weights), values_of(learner.slots)
    moved = []
    for run_left in (1.0, 0.25, 0.0, -0.1):
        learner.update(batch, run_left)
        assert learner.learning_rate == pytest.approx(0.01 * max(0.0, run_left))
        moved.append(
            np.concatenate(
                [
                    (old - weight.numpy()).ravel()
                    for old, weight in zip(start, learner.weights, strict=True)
                ]
            )
        )
        for variables, values in ((learner.weights, start), (learner.slots, slots)):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
    np.testing.assert_allclose(moved[1], 0.25 * moved[0], rtol=1e-3, atol=1e-7)
    assert not moved[2].any() and not moved[3].any()
    assert learner.updates == 4


def spoiled(batch: Unroll, **fields: Any) -> Unroll:
    """The batch with a number replaced in one of the environments' fields."""
    changed = {}
    for name, value in fields.items():
        changed[name] = getattr(batch.environment, name).copy()
        # In a real transition, because the loss ignores resets.
        row, column = np.argwhere(~batch.environment.first[1:])[0] + [1, 0]
        changed[name][row, column] = value
    return batch._replace(environment=batch.environment._replace(**changed))


@pytest.mark.parametrize(
    ("popart", "compiled", "wrong"),
    [
        (True, False, {"reward": np.nan}),
        (False, False, {"reward": np.nan}),
        (True, False, {"observation": np.nan}),
        (True, False, {"observation": np.inf}),
        (True, True, {"reward": np.nan}),
    ],
)
def test_a_batch_that_is_not_finite_is_skipped(popart, compiled, wrong):
    made = parts(small(level(Steps), popart=popart))
    batch, learner = played(made), made.learner
    if compiled:
        learner.compiler.with_xla = True
    weights, slots = values_of(learner.weights), values_of(learner.slots)
    assert learner.update(spoiled(batch, **wrong), 1.0).skipped
    for variable, before in zip(learner.weights + learner.slots, weights + slots, strict=True):
        np.testing.assert_array_equal(variable.numpy(), before)
    assert not learner.update(batch, 1.0).skipped
    assert all(np.isfinite(value).all() for value in values_of(learner.weights))


def test_a_batch_without_a_transition_moves_nothing():
    made = parts(small(level(Steps)))
    batch, learner = played(made), made.learner
    learner.update(batch, 1.0)  # so that there is momentum
    before = values_of(learner.weights + learner.slots)
    nothing = batch.environment._replace(first=np.ones_like(batch.environment.first))
    statistics = learner.update(batch._replace(environment=nothing), 1.0)
    assert not statistics.skipped
    # There is nothing of which figures could be means.
    assert np.isnan([*statistics.figures.values()]).all()
    for variable, value in zip(learner.weights + learner.slots, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


@pytest.mark.parametrize(
    ("environment", "agent_name"),
    [
        (Steps, "VectorAgent"),
        (Steps, "VectorLSTMAgent"),
        (TwoChoices, "VectorAgent"),
        (TwoChoices, "VectorLSTMAgent"),
        (Continuous, "VectorAgent"),
        (Continuous, "VectorLSTMAgent"),
        (Pictures, "SimpleConvNetAgent"),
        (Pictures, "ResNetAgent"),
        (Pictures, "ResNetLSTMAgent"),
    ],
)
def test_every_agent_learns_every_kind_of_action(environment, agent_name):
    # In a precision in which acting and learning differ.
    looks: dict[str, Any] = {**TINY, "precision": "bfloat16"}
    made = parts(small(level(environment), agent_name=agent_name, **looks))
    batch = made.actor().unroll()
    before = values_of(made.learner.weights)
    statistics = made.learner.update(batch, 1.0)
    assert not statistics.skipped
    # At first the learner's policy is the actor's, and only its precision may differ.
    assert statistics.figures["importance_weight"] == pytest.approx(1.0, abs=0.05)
    for old, new in zip(before, values_of(made.learner.weights), strict=True):
        assert np.isfinite(new).all() and new.dtype == np.float32
        assert (old != new).any() or not old.any()


@pytest.mark.parametrize("popart", [True, False])
def test_levels_with_separate_baselines_learn_together(popart):
    made = parts(small(f"{level(Steps)},{level(Tens)}", num_actors=2, popart=popart))
    for index in (0, 1):
        batch = made.actor(index).unroll()
        assert set(batch.level) == {index}
        assert not made.learner.update(batch, 1.0).skipped


def test_more_updates_on_the_same_batch_lower_its_baseline_loss():
    made = parts(small(level(Steps), **PLAIN))
    batch = made.actor().unroll()
    losses = [made.learner.update(batch, 1.0).figures["baseline_loss"] for _ in range(200)]
    assert losses[-1] < 0.2 * losses[0]


def test_a_restored_learner_continues_as_if_it_had_not_stopped():
    made = parts(small(level(Steps), popart=True))
    batch, learner = played(made), made.learner
    for _ in range(3):
        learner.update(batch, 1.0)
    kept = {
        group: {name: variable.numpy() for name, variable in variables.items()}
        for group, variables in learner.groups().items()
    }
    learner.update(batch, 0.5)
    other = parts(made.settings.replace(seed=9)).learner
    other.restore(kept, updates=3)
    assert other.updates == 3
    other.update(batch, 0.5)
    pairs = zip(learner.weights + learner.slots, other.weights + other.slots, strict=True)
    for one, two in pairs:
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-5, atol=1e-7)


def test_the_backdrop_follows_the_pictures_of_batches():
    made = parts(small(level(Pictures), **TINY))
    batch = made.actor().unroll()
    seen = made.learner.agent.prepare(batch.environment.observation[:1]).numpy()[0]
    made.learner.update(batch, 1.0)
    made.acting.load(made.learner.weights, 1)
    # The acting agent must see pictures as the learning one does.
    for agent in made.learner.agent, made.acting._agent:
        np.testing.assert_allclose(agent.backdrop.mean, seen.mean(0), rtol=1e-5)


@pytest.mark.parametrize("played", [Pictures, Steps])
def test_what_nobody_plays_is_not_among_usual_observations(played):
    made = parts(small(level(played), normalise_observations=True, **TINY))
    batch = made.actor().unroll()
    batch.environment.first[:, 1] = True  # a body that has left
    batch.environment.observation[:, 1] = 9
    learner, known = made.learner, made.learner.agent.backdrop
    seen = learner.agent.prepare(batch.environment.observation[:1, [0, 2]])
    learner.update(batch, 1.0)
    other = parts(made.settings).learner.agent.backdrop
    other.update(other.sums(seen))
    for one, expected in zip(known.variables, other.variables, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-6)


def test_usual_observations_are_of_all_moments_also_where_episodes_are_as_long_as_unrolls():
    made = parts(small(level(Steps), normalise_observations=True, unroll_length=8))
    actor = made.actor()
    for _ in range(16):
        batch = actor.unroll()
        assert batch.environment.first[0].all() and batch.environment.first[8].all()
        made.learner.update(batch, 1.0)
    (mean,) = [one for one in made.learner.weights if "normaliser/mean" in one.name]
    assert float(mean[0]) == pytest.approx(0.5)  # of 0, 1/7, … 1


@pytest.mark.parametrize("environment", [Steps, Pictures])
def test_usual_observations_move_as_far_with_a_batch_however_many_updates_it_has(environment):
    moved = []
    for passes in (1, 2):
        often = {"epochs": passes, "minibatches": passes}
        changes: dict[str, Any] = {"normalise_observations": True, **often, **TINY}
        made = parts(small(level(environment), algorithm="ppo", **changes))
        learner, known = made.learner, made.learner.agent.backdrop
        (mean,) = [one for one in known.variables if one.name.endswith("/mean:0")]
        known._seen.assign(1e9)  # so that the newest no longer count as one of few
        learner.update(played(made), 1.0)
        moved.append(np.abs(mean.numpy()).max())
    assert moved[0] == pytest.approx(4 * moved[1]) != 0


def test_without_a_backdrop_pixels_are_fractions_of_255():
    made = parts(small(level(Pictures), backdrop=False, **TINY))
    made.learner.update(made.actor().unroll(), 1.0)
    assert float(made.learner.agent.backdrop.scale()) == pytest.approx(1 / 255)
    assert not np.any(made.learner.agent.backdrop.mean)


@pytest.mark.parametrize("agent_name", ["SimpleConvNetAgent", "ResNetLSTMAgent"])
def test_agents_of_pictures_learn_the_same_when_compiled(agent_name):
    made = [parts(small(level(Pictures), agent_name=agent_name, **TINY)) for _ in range(2)]
    batch = made[0].actor().unroll()
    assert batch.environment.first.any()
    losses, scales = [], []
    for one, with_xla in zip(made, (False, True), strict=True):
        one.learner.compiler.with_xla = with_xla
        # Set before Adam's first step, which is just as large for rounding errors.
        backdrop = one.learner.agent.backdrop
        backdrop.update(backdrop.sums(one.learner.agent.prepare(batch.environment.observation)))
        losses.append(float(one.learner.update(batch, 1.0).figures["total_loss"]))
        scales.append(float(one.learner.agent.backdrop.scale()))
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert scales[1] == pytest.approx(scales[0], rel=1e-4)


def test_preparing_changes_no_variable():
    made = parts(small(level(Pictures), **TINY))
    learner = made.learner
    before = [variable.numpy() for variable in learner.variables]
    contribution, _ = learner.contribution(
        build.random_unrolls(made.settings, made.spec, learner.agent)
    )
    learner.prepare(contribution)
    for old, new in zip(before, learner.variables, strict=True):
        np.testing.assert_array_equal(old, new)
    assert learner.updates == 0


def test_the_error_for_a_weight_without_gradient_names_it():
    made = parts(small("CartPole-v1"))
    agent = made.learner.agent
    agent.extra = tf.Variable([1.0], name="extra")
    learner = build.learner_of(agent, made.settings)
    with pytest.raises(UserError, match="does not depend on extra:0.*trainable=False"):
        learner.update(block(made.settings), 1.0)


@pytest.mark.parametrize(
    ("what", "named"), [("figures", "policy_gradient_loss, "), ("samples", "baseline, ")]
)
def test_the_error_for_what_a_loss_leaves_out_names_it(what, named, monkeypatch):
    made = parts(small("CartPole-v1"))
    algorithm = made.learner.algorithm
    loss = algorithm.loss
    monkeypatch.setattr(algorithm, "loss", lambda *given: loss(*given)._replace(**{what: {}}))
    with pytest.raises(UserError, match=f"its loss gives no {named}.* in `{what}`"):
        made.learner.update(block(made.settings), 1.0)
