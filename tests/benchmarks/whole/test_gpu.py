"""The report about a GPU, on a machine that may have none."""

import json

import pytest

from benchmarks.whole import gpu
from tests.benchmarks.whole.gpus import path_with_nvidia_smi
from tests.benchmarks.whole.stopping import stopped_at
from user_error import UserError

pytestmark = pytest.mark.xdist_group("benchmarks")


def test_two_learners_at_once_are_measured_and_reported(tmp_path, capsys):
    gpu.measure(["--smoke", "--seconds=1", "--parts=two", f"--results={tmp_path}"])
    [row] = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    assert row["part"] == "two" and row["frames/s"] == pytest.approx(4 * row["agent steps/s"])
    assert row["agent steps/s"] > 0 and row["first update, s"] > 0
    assert (tmp_path / "gpu.png").exists()
    assert "two of SimpleConvNetAgent" in capsys.readouterr().out


def test_a_part_that_fails_says_why_and_the_others_continue(tmp_path, monkeypatch):
    def run(case, seconds):
        if case.part == "acting":
            raise UserError("no memory left.")
        return [100.0, 400.0, 1.0, 2.0, 0.5, None]

    monkeypatch.setattr(gpu, "_run", run)
    gpu.measure(["--parts=learner,acting,a3c", "--workers=4,8", f"--results={tmp_path}"])
    rows = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    names = [row["training"] for row in rows]
    assert len([row for row in rows if row["part"] == "learner"]) == 2 * 3 * 2
    assert "ResNetLSTMAgent, tf32, XLA on" in names and "8 workers" in names
    assert any("failed: no memory left." in name for name in names)


def test_failures_alone_replace_no_earlier_figures(tmp_path, monkeypatch):
    def run(case, seconds):
        raise UserError("no memory left.")

    monkeypatch.setattr(gpu, "_run", run)
    (tmp_path / "gpu.json").write_text("earlier")
    gpu.measure(["--parts=a3c", f"--results={tmp_path}"])
    assert (tmp_path / "gpu.json").read_text() == "earlier"


def test_lines_that_have_been_measured_are_written_when_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "_run", stopped_at(3, [100.0, 400.0, 1.0, 2.0, 0.5, None]))
    with pytest.raises(KeyboardInterrupt):
        gpu.measure(["--parts=learner", f"--results={tmp_path}"])
    rows = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    assert len(rows) == 2 and (tmp_path / "gpu.png").exists()


def test_plain_float32_is_without_tf32():
    own = gpu.Own()
    by_name = {case.name: case for case in gpu._learner(own)}
    assert by_name["ResNetAgent, float32, XLA on"].environment == gpu.NO_TF32
    assert not by_name["ResNetAgent, tf32, XLA on"].environment
    assert by_name["ResNetAgent, bf16, XLA off"].settings.learning.xla == "off"


def test_a_busy_machine_has_an_actor_for_each_core_but_one(monkeypatch):
    monkeypatch.setattr(gpu, "usable_cores", lambda: 16)
    monkeypatch.setattr(gpu, "_gpu", lambda: "a GPU")
    cases = gpu._busy(gpu.Own())
    assert [case.actors for case in cases] == [15, 15, 0, 0]
    apart, together = cases[0].settings.actors, cases[-1].settings.actors
    assert apart.actors_on_host == 15 and apart.acting_device == "cpu"
    assert together.num_actors == 4 and together.acting_device == "gpu"


@pytest.mark.parametrize(("said", "gigabytes"), [("2048", 2.0), ("[N/A]", None), ("", None)])
def test_memory_is_what_nvidia_smi_says_if_it_does(said, gigabytes, monkeypatch):
    monkeypatch.setattr(gpu, "_asked", lambda what: said)
    assert gpu._gigabytes() == gigabytes


@pytest.mark.parametrize(
    ("visible", "name"),
    [(None, "the first"), ("1", "the second"), ("GPU-b,0", "the second"), ("-1", "none"),
     ("", "none"), ("MIG-c", "any")],
)  # fmt: skip
def test_the_gpu_is_one_that_may_be_used(visible, name, tmp_path, monkeypatch):
    path_with_nvidia_smi(tmp_path, monkeypatch)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu._gpu() == name


def test_each_line_is_measured_once(tmp_path):
    with pytest.raises(UserError, match="there is no flag --repeats"):
        gpu.measure(["--repeats=3", f"--results={tmp_path}"])


def test_unknown_parts_are_refused(tmp_path):
    with pytest.raises(UserError, match="--parts=gpu: expected some of smoke"):
        gpu.measure(["--parts=gpu", f"--results={tmp_path}"])
