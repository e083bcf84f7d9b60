"""The benchmark of transport runs and shows both transports' figures beside the bare copy."""

import json

import pytest

from benchmarks.parts import transport


def test_blocks_stand_beside_the_bare_copy(tmp_path):
    flags = ["--unrolls=2", "--actors=1", "--seconds=0.2", "--repeats=2", "--unroll_bytes=1000"]
    transport.measure([*flags, f"--results={tmp_path}"])
    rows = json.loads((tmp_path / "transport.json").read_text())["rows"]
    assert [row["transport"] for row in rows] == ["tensorflow", "secure"]
    for row in rows:
        assert (row["unrolls a message"], row["actors"]) == ("2", "1")
        for figure in ("unrolls/s", "MB/s", "bare TCP MB/s"):
            assert len(row[figure]["values"]) == 2 and row[figure]["least"] > 0
        bytes_a_second = pytest.approx(row["unrolls/s"]["median"] * 1000)
        assert row["MB/s"]["median"] * 1e6 == bytes_a_second
