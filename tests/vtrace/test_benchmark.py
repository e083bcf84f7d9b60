"""The benchmark of V-trace compares equivalent functions, and prints its table."""

import numpy as np

from benchmarks.parts import vtrace as benchmark


def test_the_recursions_that_it_measures_agree():
    (_, doubling, arguments), (_, scan, _), _ = benchmark.contenders(length=9)
    np.testing.assert_allclose(doubling(*arguments), scan(*arguments), rtol=1e-5, atol=1e-5)


def test_it_prints_a_row_for_each_way_and_mode(capsys, tmp_path):
    benchmark.measure(["--lengths=2", "--frames=2", "--repeats=1", f"--results={tmp_path}"])
    rows = [row for row in capsys.readouterr().out.splitlines() if row.endswith("%")]
    assert [row.split()[0] for row in rows] == ["2"] * 6
    assert sum(" XLA " in row for row in rows) == 3
