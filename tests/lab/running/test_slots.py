"""How many sessions run side by side here, and on which cores."""

import os

import pytest

from lab.actions import looking
from lab.running import slots
from lab.running.slots import GIB
from lab.specs.meta import Resources
from lab.trials import claims
from user_error import UserError


@pytest.fixture
def eight_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(slots, "usable_cores", lambda: 8)
    monkeypatch.setattr(slots, "free_memory", lambda: 4 * GIB)  # as a container's limit leaves
    monkeypatch.setattr(claims, "_claims", lambda what: tmp_path)


def test_there_are_as_many_places_as_cores_and_memory_carry(eight_cores):
    assert slots.slots(Resources(memory_gb=0.1)) == [[core] for core in range(8)]
    assert slots.slots(Resources(cores=3, memory_gb=0.1), 7) == [[0, 1, 2], [3, 4, 5]]
    assert slots.slots(Resources(memory_gb=1.5)) == [[0], [1]]


def test_what_sessions_hold_that_are_taken_over_is_theirs(eight_cores):
    with pytest.raises(UserError, match="memory_gb: found 10; expected at most 4.0, the memory"):
        slots.slots(Resources(memory_gb=10))
    assert slots.slots(Resources(memory_gb=10), held=9 * GIB) == [[0]]


def test_cores_of_other_experiments_come_last(eight_cores):
    assert claims.held([0, 2]) == [0, 2]
    assert claims.is_claimed(0) and not claims.is_claimed(1)
    assert slots.slots(Resources(memory_gb=0.1)) == [[1], [3], [4], [5], [6], [7], [0], [2]]
    assert slots.slots(Resources(memory_gb=0.1), 2) == [[1], [3]]


def test_cores_can_be_had_without_a_folder_for_claims(eight_cores, monkeypatch):
    def fails(what):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(claims, "_claims", fails)
    assert claims.held([1]) == [1] and not claims.is_claimed(1)


def test_a_spec_names_also_its_benchmark_and_its_short_runs(lab):
    (lab.folder / "two.json").write_text(
        '{"a": {"level": "CartPole-v1"}, "b": {"level": "Catch-v0"}}'
    )
    for name in ("a_dev", "two_benchmark", "b"):
        folder = lab.data / name
        folder.mkdir(parents=True)
        (folder / "spec.json").write_text(f'{{"{name}": {{"level": "CartPole-v1"}}}}')
    file = str(lab.folder / "two.json")
    for argument, found in ((f"{file}:a", "a_dev"), (file, "two_benchmark"), (f"{file}:b", "b")):
        assert looking.chosen(argument, lab.data).folder.name == found
    (lab.data / "two_benchmark" / "spec.json").unlink()
    with pytest.raises(UserError, match="found no experiment called two_benchmark there"):
        looking.chosen(file, lab.data)
