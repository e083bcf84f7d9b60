"""The cores and the memory that a process may use, under limits of control groups."""

import os
import types

import psutil
import pytest

from trainer.machine import cores, quota

GIB = 2**30


@pytest.fixture
def cgroups(monkeypatch, tmp_path):
    """Sixteen cores; the test writes the files of the control groups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(quota, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(quota, "OWN_CGROUP", tmp_path / "own")

    def write(own, **files):
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            path = tmp_path / "cgroup" / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 16),
        ({"cpu_dot_max": "max 100000\n"}, 16),
        ({"cpu_dot_max": "400000 100000\n"}, 4),
        ({"cpu_dot_max": "150000 100000\n"}, 2),
        ({"cpu_dot_max": "10000 100000\n"}, 1),
        ({"cpu_dot_max": "9900000 100000\n"}, 16),
        ({"cpu_dot_max": "800000 100000\n", "pods__one__cpu_dot_max": "300000 100000\n"}, 3),
        ({"cpu_dot_max": "200000 100000\n", "pods__one__cpu_dot_max": "max 100000\n"}, 2),
        ({"cpu_dot_max": "nonsense"}, 16),
    ],
)
def test_a_quota_of_the_group_or_of_one_above_it_counts(cgroups, files, cores):
    cgroups("0::/pods/one\n", **files)
    assert quota.usable_cores() == cores


@pytest.mark.parametrize(("limit", "cores"), [("-1", 16), ("250000", 3)])
def test_a_quota_of_the_first_version_counts(cgroups, limit, cores):
    files = {"cpu__d__cpu_dot_cfs_quota_us": limit, "cpu__d__cpu_dot_cfs_period_us": "100000"}
    cgroups("4:cpu,cpuacct:/d\n3:memory:/d\n", **files)
    assert quota.usable_cores() == cores


def test_without_control_groups_all_cores_count(cgroups):
    assert quota.usable_cores() == 16


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 16 * GIB),
        ({"limit": "max"}, 16 * GIB),
        ({"limit": str(8 * GIB)}, 6 * GIB),  # 3 are used, 1 of them by files
        ({"limit": str(64 * GIB)}, 16 * GIB),
        ({"limit": str(1 * GIB)}, 0),
        ({"limit": "nonsense"}, 16 * GIB),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_of_memory_counts(cgroups, monkeypatch, version, files, free):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(available=16 * GIB))
    names = (
        {"limit": "a__memory_dot_max", "used": "a__memory_dot_current", "stat": "inactive_file"}
        if version == 2
        else {
            "limit": "memory__a__memory_dot_limit_in_bytes",
            "used": "memory__a__memory_dot_usage_in_bytes",
            "stat": "total_inactive_file",
        }
    )
    folder = names["limit"].rpartition("__")[0]
    written = {
        names["used"]: f"{3 * GIB}\n",
        f"{folder}__memory_dot_stat": f"anon 5\n{names['stat']} {1 * GIB}\n",
        **{names[name]: text for name, text in files.items()},
    }
    cgroups("0::/a\n" if version == 2 else "7:memory:/a\n", **written)
    assert quota.free_memory() == free


@pytest.mark.parametrize("version", [1, 2])
def test_cores_are_busy_as_far_as_the_quota_is_used(cgroups, monkeypatch, version):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def used(seconds: int) -> None:
        if version == 2:
            stat = f"usage_usec {seconds}000000\nuser_usec 5\n"
            cgroups("0::/a\n", cpu_dot_max="250000 100000\n", a__cpu_dot_max="max 1\n")
            cgroups("0::/a\n", cpu_dot_stat=stat)
        else:
            period = {"cpu__a__cpu_dot_cfs_period_us": "100000"}
            cgroups("4:cpu:/a\n", cpu__a__cpu_dot_cfs_quota_us="250000", **period)
            cgroups("4:cpu:/a\n", cpu__a__cpuacct_dot_usage=f"{seconds}000000000\n")

    used(7)
    since = cores.cores_time()
    now[0] += 10
    used(12)
    assert cores.busy_fraction(since) == pytest.approx(5 / (2.5 * 10))


def test_without_a_quota_the_load_of_the_cores_counts(cgroups):
    cgroups("0::/a\n", cpu_dot_max="9900000 100000\n", cpu_dot_stat="usage_usec 1\n")
    assert quota.tightest_quota() is None
