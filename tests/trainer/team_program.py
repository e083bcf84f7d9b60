"""Compares a team's updates with those of a single learner, in several processes under mpirun.

Each process makes the same batches, one for each learner. In the team, each learner trains on its
own batch; the single learner, which only the first process has, trains on all of them at once,
without those of starved learners. The team's weights and figures are the same in every process.
"""

# ruff: noqa: E402
from typing import Any

from trainer.machine.quiet import import_tensorflow

import_tensorflow()  # before the others import it with all that nobody needs here

import numpy as np
import tensorflow as tf

from algorithms.trajectory import Unroll
from tests.trainer.levels import Glimpses, Pictures, Steps, Tens, level
from tests.trainer.training import parts, small
from trainer import build
from trainer.learning.batches import cut, join, unrolls_in
from trainer.learning.learner import Learner
from trainer.learning.minibatches import Passes
from trainer.settings.config import Settings
from trainer.team.horovod_team import HorovodTeam, horovod
from trainer.team.team import ALONE, Round, Team

CLIPPED = {"gradients_clipping": 0.05}
VARIANTS: list[dict[str, Any]] = [
    CLIPPED,
    {"optimizer": "rmsprop", "momentum": 0.5, "popart": False, "gradients_clipping": -1.0},
    {"agent_name": "VectorLSTMAgent", "reward_clipping": "soft_asymmetric"},
    # Not Adam: its steps are just as large if gradients are only rounding errors.
    {"level_name": f"{level(Pictures)},{level(Glimpses)}", "optimizer": "rmsprop", "epsilon": 0.1}
    | {"width": 36, "height": 36},  # most of the time would go into larger ones' weights
]
# The largest error of a sum, as a fraction of the largest number in it.
ROUNDED = {"none": 1e-6, "fp16": 2e-3, "bf16": 1.6e-2}
# Settings without which a fresh agent plays the same.
NOT_SEEN_IN_PLAY = ("gradients_clipping", "optimizer", "momentum", "epsilon")
_played: dict[str, list[Unroll]] = {}


def settings(**changes: Any) -> Settings:
    chosen: dict[str, Any] = {"num_actors": 2, "envs_per_actor": 6, "batch_size": 3}
    chosen |= {"learning_rate": 0.01, "level_name": f"{level(Steps)},{level(Tens)}"}
    return small(**chosen | changes)


def batches(of: Settings, learners: int) -> list[Unroll]:
    """A batch for each learner, each with different levels and numbers of resets."""
    alike = {name: value for name, value in of.flat().items() if name not in NOT_SEEN_IN_PLAY}
    key = str(sorted(alike.items()))
    if key not in _played:
        _played[key] = _play(of)
    return _played[key][:learners]


def _play(of: Settings) -> list[Unroll]:
    made = parts(of)
    steps, tens = (made.actor(index) for index in (0, 1))
    steps.unroll()
    tens.unroll()
    one, other = steps.unroll(), tens.unroll()
    return [join([cut(one, 0, 2), cut(other, 0, 1)]), cut(other, 3, 6), cut(one, 3, 6)]


def learner(of: Settings, team: Team = ALONE) -> Learner:
    """A learner; all of them begin with the same weights."""
    return build.learner_of(parts(of).learner.agent, of, team)


def assert_alike(one: Learner, other: Learner, what: str) -> None:
    for mine, theirs in zip(one.variables, other.variables, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), 2e-4, 2e-6, err_msg=what)


def assert_equal_everywhere(team: HorovodTeam, ours: Learner) -> None:
    arrays = [np.atleast_1d(one.numpy()) for one in ours.variables]
    everything = np.concatenate([array.view(np.uint8).ravel() for array in arrays])
    gathered = team.gather(everything[np.newaxis])
    assert (gathered == gathered[0]).all()


def test_updates(team: HorovodTeam, **changes: Any) -> None:
    of = settings(**changes)
    each = batches(of, team.size)
    ours, alone = learner(of, team), learner(of) if team.rank == 0 else None
    resets = [int(batch.environment.first[1:].sum()) for batch in each]
    assert len(set(resets)) > 1, resets
    everyone = list(range(team.size))
    # In the third and fourth update, some learners have no batch.
    for present in (everyone, everyone, everyone[:-1], everyone[-1:], everyone):
        mine = each[team.rank] if team.rank in present else None
        got = ours.update(mine, 0.5)
        assert_equal_everywhere(team, ours)
        # These two are means of the learners' figures, not figures of all unrolls together.
        names = sorted(set(got.figures) - {"baseline_spread", "importance_weight"})
        figures = np.array([[float(got.figures[name]) for name in names]])
        assert (team.gather(figures) == figures).all(), names
        if changes == CLIPPED:
            assert float(got.figures["gradient_norm"]) > of.learning.gradients_clipping
        if alone is None:
            continue
        wanted = alone.update(join([each[rank] for rank in present]), 0.5)
        assert_alike(ours, alone, f"{changes}, {present}")
        for name in names:
            pair = got.figures[name], wanted.figures[name]
            np.testing.assert_allclose(*pair, rtol=1e-3, atol=1e-5, err_msg=f"{changes}, {name}")


def test_minibatches(team: HorovodTeam) -> None:
    """Each minibatch's update is that of a single learner with the same pieces of all rollouts."""
    chosen = {"epochs": 2, "minibatches": 3, "piece_length": 2}
    of = settings(algorithm="ppo", optimizer="rmsprop", epsilon=0.1, **chosen)
    each = batches(of, team.size)
    ours, alone = learner(of, team), learner(of) if team.rank == 0 else None
    for present in (list(range(team.size)), list(range(team.size - 1))):
        here = team.rank in present
        mine = ours.rollout(each[team.rank] if here else None, 2)
        if alone:
            whole = alone.rollout(join([each[rank] for rank in present]), 2)
        unrolls = unrolls_in(each[0])
        pieces = unrolls * (of.actors.unroll_length // 2)
        passes = Passes(2, 3, piece_length=2, pieces=pieces)
        for indices in passes.orders(pieces, ours.updates):
            contribution, samples = ours.contribution.of_some(*mine, indices)
            _, total = ours.add_up(Round(), contribution)
            ours.move(total, samples, 0.5)
            if alone is None:
                continue
            # Pieces are ordered by where they begin, then by unrolls, here those of all learners.
            begin, unroll = np.divmod(indices, unrolls)
            of_all = [
                (begin * len(present) + place) * unrolls + unroll for place in range(len(present))
            ]
            together = alone.contribution.of_some(*whole, np.concatenate(of_all))
            alone.move(*together, 0.5)
            assert_alike(ours, alone, f"minibatches, {present}, {ours.updates}")
    assert ours.updates == 2 * 2 * 3 == (alone or ours).updates
    assert_equal_everywhere(team, ours)


def test_bit_equality(team: HorovodTeam, updates: int) -> None:
    of = settings()
    mine, ours = batches(of, team.size)[team.rank], learner(of, team)
    for update in range(updates):
        starved = update % 7 == 3 and team.rank == 1
        ours.update(None if starved else mine, 1 - update / updates)
    assert_equal_everywhere(team, ours)


def test_sums(team: HorovodTeam, compression: str) -> None:
    shapes: list[list[int]] = [[7], [], [3, 5], [1]]
    random = np.random.default_rng(1)
    # Learners add up different numbers, both tiny and large.
    scales = 10.0 ** random.integers(-4, 4, len(shapes))
    all_of_them = [
        [(scale * random.normal(size=s)).astype(np.float32) for s, scale in zip(shapes, scales)]  # noqa: B905
        for _ in range(team.size)
    ]
    mine = [tf.constant(one) for one in all_of_them[team.rank]]
    _, exact, rounded = team.add_up(Round(), mine, mine)
    for index, (one, other) in enumerate(zip(exact, rounded, strict=True)):
        wanted = sum(each[index].astype(np.float64) for each in all_of_them)
        largest = max(np.abs(each[index]).max() for each in all_of_them)
        np.testing.assert_allclose(one.numpy(), wanted, atol=1e-6 * largest)
        np.testing.assert_allclose(other.numpy(), wanted, atol=ROUNDED[compression] * largest)
        assert other.shape == one.shape


def test_messages(team: HorovodTeam) -> None:
    ranks = range(team.size)
    mine = Round(batches=1, steps=10 + team.rank, weights_version=2.5)
    total, _, _ = team.add_up(mine, [tf.zeros([])], [tf.zeros([3])])
    assert total[:3] == (team.size, sum(10 + rank for rank in ranks), 2.5 * team.size), total
    assert team.broadcast_value({"rank": team.rank}) == {"rank": 0}
    assert len(team.gather(np.zeros([team.rank, 3]))) == sum(ranks)


if __name__ == "__main__":
    hvd = horovod()
    assert hvd.mpi_enabled() and not hvd.gloo_built()  # as bin/setup builds it
    # Three learners show all of it; two only what may differ with their number.
    all_of_it = hvd.size() > 2
    for compression in ROUNDED if all_of_it else ["none"]:
        together = HorovodTeam(hvd, 60, compression)
        assert together.size > 1, "start it under mpirun"
        test_messages(together)
        test_sums(together, compression)
        # Rounding would show at once; what adds up slowly is the same for all of them.
        test_bit_equality(together, 50 if compression == "none" else 10)
    exactly = HorovodTeam(hvd, 60)
    for variant in VARIANTS if all_of_it else [CLIPPED]:
        test_updates(exactly, **variant)
    test_minibatches(exactly)
