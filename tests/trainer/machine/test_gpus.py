"""What a process says of GPUs, and which it keeps. There need not be any here."""

import pytest
import tensorflow as tf

from trainer.machine import gpus


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """``machine(driver, asked, seen)`` has GPUs by its driver, and some in TensorFlow."""

    def make(driver: int, asked: str | None, seen: int) -> None:
        monkeypatch.setattr(gpus, "DRIVER", tmp_path / "gpus")
        for number in range(driver):
            (tmp_path / "gpus" / f"0000:0{number}").mkdir(parents=True, exist_ok=True)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if asked is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
        monkeypatch.setattr(gpus, "visible_gpus", lambda: ["a GPU"] * seen)

    return make


@pytest.mark.parametrize(
    ("driver", "asked", "seen", "warning"),
    [
        (0, None, 0, ""),
        (1, None, 1, ""),
        (1, "-1", 0, ""),
        (1, "", 0, ""),
        (1, None, 0, "this machine has a GPU, but TensorFlow cannot use a GPU here"),
        (0, "0,1", 0, "CUDA_VISIBLE_DEVICES is 0,1, but TensorFlow cannot use a GPU here"),
    ],
)
def test_a_gpu_that_is_not_used_is_spoken_of(machine, driver, asked, seen, warning):
    machine(driver, asked, seen)
    said = gpus.unused()
    assert said.startswith(f"warning: {warning}") if warning else not said


@pytest.mark.parametrize(("place", "kept"), [(0, "a"), (1, "b"), (2, "a")])
def test_a_process_keeps_one_gpu(place, kept, monkeypatch):
    calls = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["a", "b"])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *given: calls.append(given))
    gpus.keep_one(place)
    assert calls == [(kept, "GPU")]


def test_memory_of_gpus_is_taken_as_needed_also_where_one_is_in_use(monkeypatch):
    asked = []

    def grow(gpu: str, grows: bool) -> None:
        asked.append((gpu, grows))
        raise RuntimeError("in use")

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["a", "b"])
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", grow)
    gpus.take_memory_as_needed()
    assert asked == [("a", True), ("b", True)]


def test_a_gpu_takes_a_batch_whole(machine):
    machine(1, None, 1)
    assert gpus.pieces(2) == 1
    machine(1, "-1", 0)
    assert gpus.pieces(2) == 2
