"""Updates of learners that train together, in real processes under mpirun."""

import pytest

from tests.trainer.cluster import mpirun

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("trainer cluster")]


# Three on two cores take three times as long as two.
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.extras)])
def test_learners_update_as_one_would_with_all_unrolls_and_stay_bit_equal(count):
    # Each process checks its own results: mpirun mixes what they print.
    with mpirun([["-m", "tests.trainer.team_program"]] * count) as learners:
        assert learners.wait(550) == 0, learners.output()
