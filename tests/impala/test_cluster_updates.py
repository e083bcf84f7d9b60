"""Updates of learners that train together, in real processes under mpirun."""

from tests.impala.cluster import mpirun


def test_two_learners_update_as_one_would_on_all_their_unrolls_and_stay_bit_equal():
    # Each process checks its own results: mpirun mixes what they print.
    with mpirun([["-m", "tests.impala.team_program"]] * 2) as learners:
        assert learners.wait(100) == 0, learners.output()
