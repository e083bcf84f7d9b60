"""What a new run takes over from the agent of another, whose algorithm may be another."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.dqn import DQN
from tests.trainer.levels import Continuous, Steps, Tens, level
from tests.trainer.training import Parts, block, parts, small, values_of
from trainer import build
from trainer.programs import initial, resuming
from trainer.programs.run import Run
from trainer.settings.config import Settings
from trainer.storage import bundles, checkpoints
from trainer.storage.checkpoints import KINDS, Checkpoint
from user_error import UserError


def made(algorithm: str, **changes: Any) -> Parts:
    return parts(small(level(Steps), algorithm=algorithm, **changes))


def kept(of: Parts) -> Checkpoint:
    """A checkpoint of the learner."""
    groups = of.learner.groups()
    arrays: dict[str, Any] = {
        group: {name: variable.numpy() for name, variable in variables.items()}
        for group, variables in groups.items()
    }
    counters = {"environment_frames": 100}
    return Checkpoint(**arrays, counters=counters, settings=of.settings.flat())


def values(of: Parts) -> np.ndarray:
    """The agent's values of an unroll's rows, as returns."""
    batch = block(small(level(Steps)))
    step, learner = batch.environment, of.learner
    state = learner.agent.initial_state(step.first.shape[1])
    output, _ = learner.agent(step.observation, step.reward, batch.action, step.first, state)
    algorithm = learner.algorithm
    spread, mean = algorithm.scale_of_values({n: v.numpy() for n, v in algorithm.kept.items()})
    return output.baseline.numpy() * spread + mean


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("ppo", {}),
        ("impala", {"popart": False}),
        ("impala", {}),
        ("impala", {"normalise_advantages": True}),
    ],
)
def test_values_are_the_same_whatever_units_they_are_learned_in(algorithm, changes):
    agent = {"agent_name": "VectorLSTMAgent", "separate_baseline": "off"}
    old, new = made("impala", **agent), made(algorithm, **agent, **changes)
    estimates = old.learner.algorithm.kept
    estimates["popart_mean"].assign([70.0])
    estimates["popart_variance"].assign([900.0])
    initial.take(kept(old), new.learner)
    np.testing.assert_allclose(values(new), values(old), rtol=1e-4, atol=1e-3)


def test_an_algorithm_of_ones_own_that_keeps_something_else_leaves_values_as_they_are():
    agent = {"agent_name": "VectorLSTMAgent", "separate_baseline": "off"}
    old, new = made("ppo", **agent), made("impala", **agent)
    checkpoint = kept(old)
    checkpoint.settings["algorithm"] = "mine.own:Settings"
    initial.take(checkpoint, new.learner)
    np.testing.assert_allclose(values(new), values(old), rtol=1e-4, atol=1e-3)


def test_values_of_actions_are_no_policy(tmp_path):
    for name, other in ("double_dqn", "impala"), ("impala", "double_dqn"):
        file = tmp_path / f"{name}.npz"
        with open(file, "wb") as opened:
            old = made(name, **({"dueling": True} if "dqn" in name else {}))
            checkpoints.write(kept(old), opened)
        new = made(other, **({"dueling": True} if "dqn" in other else {}))
        with pytest.raises(UserError, match=f"learned by --algorithm={name}"):
            initial.find(str(file), "", new.learner)
        assert initial.find(str(file), "", old.learner)


def test_a_world_model_is_no_agent_to_start_from(tmp_path):
    of = made("impala")
    model, file = kept(of), tmp_path / "model.npz"
    model.settings["algorithm"] = "simple"
    with open(file, "wb") as opened:
        checkpoints.write(model, opened)
    words = f"^--initial_weights={file} is a world model and no agent; --model_bundle"
    with pytest.raises(UserError, match=words):
        initial.find(str(file), "", of.learner)


def test_a_target_network_is_in_no_bundle_and_begins_as_the_network_that_was_taken():
    old, new = made("dqn"), made("dqn")
    for weight in old.learner.weights:
        weight.assign_add(np.full(weight.shape, 0.1, np.float32))
    algorithm = new.learner.algorithm
    assert isinstance(algorithm, DQN)
    bundle = bundles.bundled(kept(old), ["algorithm"], {}, algorithm.copies)
    assert set(bundle.algorithm) == {"target_updates"}
    bundle.settings = old.settings.flat()
    initial.take(bundle, new.learner)
    for mine, theirs in zip(algorithm._target.variables, old.learner.weights, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-3)
    for mine, theirs in zip(values_of(new.learner.weights), old.learner.weights, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-3)


def test_levels_in_another_order_are_refused_as_each_has_values_of_its_own():
    names = [level(Steps), level(Tens)]
    before = parts(small(",".join(names), num_actors=2))
    checkpoint = kept(before)
    checkpoint.settings |= resuming.spaces(before.spec)
    resuming.check_same(checkpoint, before.settings, before.spec, Path("run"))
    turned = before.settings.replace(level_name=",".join(reversed(names)))
    with pytest.raises(UserError, match=r"--level_name=.* \(another order\) does not fit the run"):
        resuming.check_same(checkpoint, turned, before.spec, Path("run"))


def test_weights_of_levels_in_another_order_are_refused_as_a_start_too(tmp_path):
    names = [level(Steps), level(Tens)]
    before = parts(small(",".join(names), num_actors=2))
    file = tmp_path / "first.npz"
    with open(file, "wb") as opened:
        checkpoints.write(kept(before), opened)
    turned = before.settings.replace(
        level_name=",".join(reversed(names)),
        initial_weights=str(file),
        logdir=str(tmp_path / "run"),
    )
    words = r"\(another order\) does not fit .* Use that, or leave --initial_weights out"
    with pytest.raises(UserError, match=words):
        Run(turned, before.spec, before.learner)
    alike = before.settings.replace(level_name=", ".join(names))
    resuming.check_units(kept(before), alike, before.spec, file)


def test_levels_in_another_order_are_as_good_where_all_have_the_same_values():
    names = [level(Steps), level(Tens)]
    before = parts(small(",".join(names), num_actors=2, popart=False))
    checkpoint = kept(before)
    checkpoint.settings |= resuming.spaces(before.spec)
    turned = before.settings.replace(level_name=",".join(reversed(names)))
    resuming.check_same(checkpoint, turned, before.spec, Path("run"))


def test_a_list_of_levels_is_the_same_with_spaces_between():
    names = [level(Steps), level(Tens)]
    now = Settings(level_name=",".join(names))
    before = now.flat() | {"level_name": ", ".join(names)}
    resumed = Checkpoint({}, {}, {}, counters={"environment_frames": 100}, settings=before)
    assert not resuming.has_other_level(resumed, now) and not resuming.changes(resumed, now)
    assert resuming.has_other_level(resumed, now.replace(level_name=names[0]))


@pytest.mark.parametrize(
    ("name", "was", "same", "other"),
    [
        ("env_kwargs", "gravity=-5,wind=true", "gravity=-5, wind=true", ""),
        ("env_kwargs", "a=1,b=true", '{"b": true, "a": 1}', "a=1,b=2"),
        ("env_kwargs", "", "", "gravity=-5"),
        ("wrappers", "mine:One,mine:Two", "mine:One, mine:Two", "mine:Two,mine:One"),
    ],
)
def test_a_level_that_is_made_otherwise_is_another_one(name, was, same, other):
    counters = {"environment_frames": 100, "recent_returns": [[1.0]], "episodes": 3}
    before = Settings(level_name="LunarLander-v3", **{name: was})
    resumed = Checkpoint({}, {}, {}, counters=counters, settings=before.flat())
    assert not resuming.changes(resumed, before.replace(**{name: same}))
    now = before.replace(**{name: other})
    [warning] = resuming.changes(resumed, now)
    assert f"was trained with --{name}={was} and continues with --{name}={other}: " in warning
    assert resuming.level_since(resumed, now) == 100
    assert resuming.counters(resumed, now) == {"environment_frames": 100, "episodes": 3}
    del resumed.settings[name]  # as of a run before there was this setting
    assert resuming.has_other_level(resumed, now) == bool(other)


@pytest.mark.parametrize(
    ("agent", "changes"),
    [
        ("VectorAgent", {"separate_baseline": "on"}),
        ("VectorAgent", {"hidden_sizes": "64, 64"}),
        ("VectorAgent", {"activation": "tanh"}),  # as the default has it here
        ("VectorLSTMAgent", {"lstm_size": 64, "separate_baseline": "off"}),
    ],
)
def test_a_run_resumes_with_other_words_for_the_same_network(agent, changes):
    check_resumed(made("ppo", agent_name=agent), changes)


@pytest.mark.parametrize(
    ("before", "changes", "told"),
    [
        ({}, {"separate_baseline": "off"}, r"separate_baseline=off \(weights of other shapes\)"),
        ({}, {"hidden_sizes": "64,9"}, r"hidden_sizes=64,9 \(weights of other shapes\)"),
        ({"hidden_sizes": "9"}, {"hidden_sizes": ""}, "trained with --hidden_sizes=9"),
        ({"hidden_sizes": "9"}, {"hidden_sizes": "8"}, "trained with --hidden_sizes=9"),
        ({}, {"activation": "relu"}, "--activation=relu does not fit the run"),
    ],
)
def test_another_network_is_refused_and_its_flag_is_named(before, changes, told):
    with pytest.raises(UserError, match=told):
        check_resumed(made("ppo", agent_name="VectorAgent", **before), changes)


def test_deviations_that_are_to_be_weights_of_their_own_are_another_network():
    before = parts(small(level(Continuous), algorithm="ppo", agent_name="VectorAgent"))
    with pytest.raises(UserError, match="trained with --state_deviations=True"):
        check_resumed(before, {"state_deviations": False})


def check_resumed(before: Parts, changes: dict[str, Any]) -> None:
    """Checks whether a run may be resumed with these changes."""
    checkpoint, now = kept(before), before.settings.replace(**changes)
    checkpoint.settings |= resuming.spaces(before.spec)
    learner = build.learner(now, before.spec)
    resuming.check_fits(checkpoint, learner, now, before.spec, Path("run"))


@pytest.mark.parametrize(
    ("differs", "flag", "value"),
    [
        ("observations", "env_kwargs", "size=3"),
        ("observations", "action_masks", True),
        ("observations", "tell_bodies", "mark"),
        ("actions", "env_kwargs", "size=3"),
        ("actions", "action_set", "arrows"),
        ("actions", "wrappers", "mine:Wrapper"),
        (KINDS, "env_kwargs", "size=3"),
        (KINDS, "action_masks", True),
        (KINDS, "tell_bodies", "mark"),
    ],
)
def test_the_flag_is_named_that_has_changed_what_is_seen_or_done(differs, flag, value):
    before = Settings(level_name=level(Steps))
    spec = build.level_spec(before)
    trained = before.flat() | resuming.spaces(spec) | {differs: "something else"}
    checkpoint = Checkpoint({}, {}, {}, counters={}, settings=trained)
    words = f"^--{flag}=.* does not fit the run in run, which was trained with --{flag}="
    with pytest.raises(UserError, match=words):
        resuming.check_same(checkpoint, before.replace(**{flag: value}), spec, Path("run"))


@pytest.mark.parametrize(
    ("played", "warned"), [("BreakoutNoFrameskip-v4", True), ("CartPole-v1", False)]
)
def test_a_game_that_goes_on_with_other_ends_of_episodes_has_a_warning(played, warned):
    now = Settings(level_name=played)
    before = now.flat() | {"episodic_life": False}  # the default of earlier versions
    counters = {"environment_frames": 100}
    resumed = Checkpoint({}, {}, {}, counters=counters, settings=before)
    said = resuming.changes(resumed, now)
    assert ["--episodic_life was off and is on now" in line for line in said] == [True] * warned
    assert not resuming.changes(resumed, now.replace(episodic_life=False))


@pytest.mark.parametrize("ratio", [0.25, 1.0])
def test_exploration_that_goes_on_from_elsewhere_has_a_warning(ratio):
    now = Settings(level_name="CartPole-v1", algorithm="dqn", updates_per_step=ratio)
    before = now.flat() | {"updates_per_step": 0.25}
    resumed = Checkpoint({}, {}, {}, counters={"environment_frames": 100}, settings=before)
    said = [line for line in resuming.changes(resumed, now) if "was 0.25 and is 1 now" in line]
    assert len(said) == (ratio != 0.25)


@pytest.mark.parametrize(
    ("before", "rates"),
    [
        ({}, "goes from 0.0003 to 0.00045,"),
        ({"learning_rate_schedule": "constant"}, "goes from 0.0006 to 0.00045,"),
        ({"learning_rate": 0.001}, "goes from 0.0005 to 0.00045,"),
    ],
)
def test_a_learning_rate_that_goes_on_elsewhere_is_told_as_it_was_and_as_it_is(before, rates):
    now = Settings(level_name="CartPole-v1", total_environment_frames=400)
    was = now.flat() | {"total_environment_frames": 200} | before
    resumed = Checkpoint({}, {}, {}, counters={"environment_frames": 100}, settings=was)
    [told] = resuming.changes(resumed, now)
    assert "was 200 and is 400 now" in told and rates in told


def test_a_source_that_cannot_be_looked_at_is_named():
    nobody: Any = None
    with pytest.raises(UserError, match=r"--initial_weights=x+: x+ cannot be read .File name too"):
        initial.find("x" * 300, "", nobody)
