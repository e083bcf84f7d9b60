"""PopArt keeps values the same while it changes the units in which they are learned."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from agents.layers import Build, Linear
from algorithms.impala import Impala
from algorithms.own_settings.impala import ImpalaSettings
from algorithms.popart import PopArt
from user_error import UserError

LEVELS = 3
FEATURES = np.float32(np.random.default_rng(0).normal(size=[50, 8]))


def made() -> tuple[PopArt, Linear]:
    head = Linear(8, LEVELS, Build(np.random.default_rng(1)), 1.0)
    head.bias.assign([0.5, -0.5, 0.0])
    return PopArt(head, LEVELS), head


def values(popart: PopArt, head: Linear) -> np.ndarray:
    """[L, 50]: values of the same features on each level."""
    outputs = tf.transpose(head(FEATURES))
    return np.array([popart.values(outputs[i : i + 1].numpy().T, [i])[:, 0] for i in range(LEVELS)])


def update(popart: PopArt, level: int, mean: float, spread: float, seed: int = 0) -> None:
    """One update with targets [20, 4] of one level."""
    random = np.random.default_rng(seed)
    targets = np.float32(random.normal(mean, spread, size=[20, 4]))
    popart.update(popart.sums(targets, np.full([4], level), tf.ones_like(targets)))


@pytest.mark.parametrize(("mean", "spread"), [(0.0, 1.0), (300.0, 50.0), (-5.0, 0.1), (0.0, 1e4)])
def test_new_units_change_no_value(mean, spread):
    popart, head = made()
    for seed in range(5):
        before, weights = values(popart, head), head.weights.numpy()
        update(popart, 1, mean, spread, seed)
        assert (head.weights.numpy()[1] != weights[1]).all()
        size = np.abs(before).max() + abs(mean) + spread
        np.testing.assert_allclose(values(popart, head), before, atol=1e-5 * size)


def test_levels_that_are_not_in_the_batch_stay_unchanged():
    popart, head = made()
    before = [slot.numpy() for slot in popart.kept.values()] + [
        head.weights.numpy(),
        head.bias.numpy(),
    ]
    update(popart, 1, 40.0, 3.0)
    after = [slot.numpy() for slot in popart.kept.values()] + [
        head.weights.numpy(),
        head.bias.numpy(),
    ]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new[[0, 2]], old[[0, 2]])
        assert (new[1] != old[1]).all()


def test_mean_and_spread_converge_to_those_of_each_levels_targets():
    popart, _ = made()
    wanted = {0: (1000.0, 200.0), 1: (-3.0, 0.5), 2: (0.0, 30.0)}
    for seed in range(200):
        for level, (mean, spread) in wanted.items():
            update(popart, level, mean, spread, seed)
    for level, (mean, spread) in wanted.items():
        assert popart.spread([level]).numpy()[0] == pytest.approx(spread, rel=0.05)
        got = popart.normalise(np.array([[mean]], np.float32), [level]).numpy()[0, 0]
        assert got == pytest.approx(0.0, abs=0.1)


def test_the_spread_is_right_where_the_mean_is_many_thousand_spreads_away():
    popart, _ = made()
    for seed in range(50):
        update(popart, 1, 50_000.0, 5.0, seed)
    assert popart.spread([1]).numpy()[0] == pytest.approx(5.0, rel=0.05)


def test_sums_of_parts_of_a_batch_give_the_same_estimates():
    random = np.random.default_rng(0)
    whole, parts = made()[0], made()[0]
    for _ in range(4):
        targets = tf.constant(random.normal(30.0, 4.0, size=[20, 6]), tf.float32)
        level, ones = np.array([0, 1, 2, 0, 1, 1]), tf.ones([20, 6])
        whole.update(whole.sums(targets, level, ones))
        cuts = [parts.sums(targets[:, a:b], level[a:b], ones[:, a:b]) for a, b in ((0, 2), (2, 6))]
        parts.update(tf.add_n(cuts))
    for one, other in zip(whole.kept.values(), parts.kept.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_values_undoes_normalise():
    popart, _ = made()
    update(popart, 2, 70.0, 9.0)
    level, given = np.array([2, 0]), np.array([[70.0, 1.0], [50.0, -1.0]], np.float32)
    normalised = popart.normalise(given, level)
    np.testing.assert_allclose(popart.values(normalised, level), given, rtol=1e-5)


def test_resets_do_not_count():
    one, other = made()[0], made()[0]
    targets = np.float32(np.random.default_rng(0).normal(5, 2, size=[20, 4]))
    weights = np.ones_like(targets)
    weights[5:10] = 0
    one.update(one.sums(targets, np.zeros([4], int), weights))
    spoiled = np.where(weights, targets, 1e6).astype(np.float32)
    other.update(other.sums(spoiled, np.zeros([4], int), weights))
    for a, b in zip(one.kept.values(), other.kept.values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_equal_targets_do_not_divide_by_zero():
    popart, head = made()
    before = values(popart, head)
    for _ in range(5):
        popart.update(popart.sums(tf.fill([20, 4], 7.0), [0, 0, 1, 1], tf.ones([20, 4])))
    assert np.isfinite(head.weights.numpy()).all()
    np.testing.assert_allclose(values(popart, head), before, atol=1e-4)


def test_an_agent_without_a_head_to_rescale_is_refused():
    with pytest.raises(UserError, match="SimpleNamespace has no baseline_head, which --popart"):
        Impala(ImpalaSettings(), levels=1).start(SimpleNamespace())
    Impala(ImpalaSettings(popart=False), levels=1).start(SimpleNamespace())
