"""Run by several processes under mpirun: a team's updates beside those of one learner alone.

Each process makes the same two batches. In the team, each learner trains on its own; the lone
learner trains on both at once, or on what there is when a learner has nothing.
"""

import numpy as np

from impala.batches import cut, join
from impala.horovod_team import HorovodTeam, horovod
from impala.learner import SCALARS, Learner
from impala.team import Round
from impala.trajectory import Unroll
from tests.impala.levels import Steps, Tens, level
from tests.impala.training import parts, small

SETTINGS = small(
    f"{level(Steps)},{level(Tens)}",
    num_actors=2,
    envs_per_actor=6,
    batch_size=3,
    gradients_clipping=0.5,
    learning_rate=0.01,
)


def batches() -> list[Unroll]:
    """A batch for each learner, with other levels and other numbers of resets in each."""
    made = parts(SETTINGS)
    steps, tens = (made.actor(index) for index in (0, 1))
    steps.unroll()
    tens.unroll()
    one, other = steps.unroll(), tens.unroll()
    return [join([cut(one, 0, 2), cut(other, 0, 1)]), cut(other, 3, 6)]


def learner(team=None) -> Learner:
    """All learners begin with the same weights."""
    made = parts(SETTINGS).learner
    return made if team is None else Learner(made.agent, SETTINGS, team)


def assert_alike(one: Learner, other: Learner, what: str) -> None:
    for mine, theirs in zip(one.variables, other.variables, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), 2e-4, 2e-6, err_msg=what)


def test_updates(team: HorovodTeam) -> None:
    both = batches()
    ours, alone = learner(team), learner()
    resets = [int(batch.environment.first[1:].sum()) for batch in both]
    assert resets[0] != resets[1], resets
    # In the third and fourth update, one learner has nothing.
    for present in ([0, 1], [0, 1], [0], [1], [0, 1]):
        mine = both[team.rank] if team.rank in present else None
        told = ours.update(mine, 0.5)
        wanted = alone.update(join([both[rank] for rank in present]), 0.5)
        assert_alike(ours, alone, f"{present}")
        # These two are means of the learners' figures, not figures of all unrolls together.
        for name in set(SCALARS) - {"baseline_spread", "importance_weight"}:
            got = getattr(told, name).numpy(), getattr(wanted, name).numpy()
            np.testing.assert_allclose(*got, rtol=1e-3, atol=1e-5, err_msg=name)


def test_bit_equality(team: HorovodTeam) -> None:
    both, ours = batches(), learner(team)
    for update in range(100):
        starved = update % 7 == 3 and team.rank == 1
        ours.update(None if starved else both[team.rank], 1 - update / 100)
    everything = np.concatenate([one.numpy().view(np.uint8).ravel() for one in ours.variables])
    gathered = team.gather(everything[np.newaxis])
    assert (gathered == gathered[0]).all()


def test_what_is_told(team: HorovodTeam) -> None:
    total = team.agree(Round(batches=1, steps=10 + team.rank, weights_version=2.5))
    assert total == Round(batches=2, steps=21, weights_version=5.0), total
    assert team.tell({"told": team.rank}) == {"told": 0}
    assert len(team.gather(np.zeros([team.rank, 3]))) == 1


if __name__ == "__main__":
    together = HorovodTeam(horovod(), 60)
    assert together.size == 2
    test_what_is_told(together)
    test_updates(together)
    test_bit_equality(together)
