"""The arm in pictures: what is drawn, what a folder of it holds, and what a network makes of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from environments.python.arm import model
from environments.python.mujoco_pictures import NEEDS
from sandbox.arm import capture, evaluation, geometry, network
from user_error import UserError

PROJECT = Path(__file__).parents[3]
COUNT = 240


def arm(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandbox.arm", *arguments],
        cwd=PROJECT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures, made by a process that draws nothing else."""
    folder = tmp_path_factory.mktemp("arm") / "data"
    done = arm("capture", f"--data={folder}", f"--count={COUNT}")
    assert done.returncode == 0, done.stderr
    return folder


def poses(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(geometry.LOW, geometry.HIGH, [count, 6])


def test_the_points_are_where_the_arm_is_drawn(pictures):
    """The tip's white gripper is bright at its point, much more often than beside it."""
    images, known = capture.load(pictures)
    size = images.shape[1]
    places = np.clip((geometry.points(known) + 1) / 2 * size, 0, size - 1).astype(int)
    columns, rows = places[:, -1].T
    bright = images.min(axis=-1)
    inside = np.abs(geometry.points(known)[:, -1]).max(axis=1) < 0.95
    at_tip = bright[np.arange(COUNT), rows, columns][inside]
    elsewhere = bright[np.arange(COUNT), rows, (columns + size // 3) % size][inside]
    assert np.mean(at_tip > elsewhere) > 0.8


def test_the_tip_is_where_mujoco_has_it():
    mujoco = pytest.importorskip("mujoco")
    world = model.load()
    data = mujoco.MjData(world)
    for pose in poses(20):
        data.qpos[:] = pose[3:]
        mujoco.mj_forward(world, data)
        np.testing.assert_allclose(model.tip(pose[3:]), data.site("tip").xpos, atol=1e-9)


def test_a_pose_is_found_again_from_its_points():
    truth = poses(300, seed=1)
    nearby = truth + np.random.default_rng(2).normal(0, [0.1, *[0.2] * 5], truth.shape)
    found = geometry.fitted(np.clip(nearby, geometry.LOW, geometry.HIGH), geometry.points(truth))
    assert np.percentile(evaluation.errors(found, truth), 90) < 1e-3


def test_numbers_and_poses_are_the_same():
    truth = poses(100, seed=3)
    np.testing.assert_allclose(geometry.decoded(geometry.encoded(truth)), truth, atol=1e-9)


def test_labels_are_those_of_the_manifest_and_the_same_seed_draws_the_same(pictures, tmp_path):
    lines = [json.loads(line) for line in (pictures / capture.MANIFEST).read_text().splitlines()]
    assert lines[0]["names"] == list(geometry.NAMES) and len(lines) == COUNT + 1
    for line in lines[1::50]:
        label = json.loads((pictures / "label" / f"{line['name']}.json").read_text())
        assert label == {name: line[name] for name in geometry.NAMES}
    assert arm("capture", f"--data={tmp_path}", "--count=12").returncode == 0
    again = [json.loads(line) for line in (tmp_path / capture.MANIFEST).read_text().splitlines()]
    assert again == lines[:13]


def test_without_opengl_a_capture_says_what_it_needs_and_begins_no_folder(tmp_path):
    done = arm("capture", f"--data={tmp_path}", "--count=12", MUJOCO_GL="nonsense")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("sandbox.arm: MuJoCo draws no pictures here") and NEEDS in line
    assert not (tmp_path / capture.MANIFEST).exists()


def test_an_interrupted_capture_is_continued(pictures, tmp_path):
    assert arm("capture", f"--data={tmp_path}", "--count=12").returncode == 0
    manifest = tmp_path / capture.MANIFEST
    whole = manifest.read_text()
    manifest.write_text(whole[:-40])  # its last line was being written
    assert arm("capture", f"--data={tmp_path}", "--count=12").returncode == 0
    assert manifest.read_text() == whole
    other = arm("capture", f"--data={tmp_path}", "--count=12", "--seed=2")
    assert other.returncode == 2 and "have --size=96 --seed=1" in other.stderr


def test_a_network_learns_and_is_kept_evaluated_and_asked(pictures, tmp_path):
    weights = tmp_path / "network.npz"
    flags = [f"--data={pictures}", f"--network={weights}"]
    trained = arm("train", *flags, "--updates=40")
    assert trained.returncode == 0, trained.stderr
    images, known = capture.load(pictures)
    predicted = network.predict(network.load(weights), images)
    fresh = network.predict(network.built(), images)
    own = evaluation.errors(predicted["direct"], known).mean()
    assert own < 0.8 * evaluation.errors(fresh["direct"], known).mean()
    done = arm("evaluate", *flags)
    assert done.returncode == 0 and "mean predictor" in done.stdout, done.stderr
    kept = json.loads((tmp_path / "evaluation.json").read_text())
    assert kept["pictures"] == COUNT // 10 and set(kept["errors"]) == {
        "direct", "geometry", "mean predictor"
    }  # fmt: skip
    assert (tmp_path / "predictions.png").stat().st_size > 10_000
    asked = arm("predict", str(pictures / "img" / "000003.png"), *flags)
    assert set(json.loads(asked.stdout)["geometry"]) == set(geometry.NAMES)


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_few_pictures_are_drawn_as_well(count, tmp_path):
    images = np.zeros([count, 96, 96, 3], np.uint8)
    evaluation.draw(tmp_path / "few.png", images, poses(count), poses(count))
    assert (tmp_path / "few.png").stat().st_size > 0


def test_mistakes_are_one_line(pictures, tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "half.npz").write_bytes(b"PK\x03\x04half")
    for arguments, expected in (
        (["grab"], "'grab' is unknown; expected capture"),
        (["train", f"--data={tmp_path}"], "Make pictures first"),
        (["evaluate", f"--data={pictures}", f"--network={tmp_path}/x.npz"], "Train one first"),
        (["evaluate", f"--data={pictures}", f"--network={tmp_path}/half.npz"], "cannot be read"),
        (["predict"], "expected the name of one picture"),
        (["train", "--network=weights"], "--network=weights: expected a name that ends with .npz"),
        (["predict", f"{tmp_path}/text.png"], "is not a picture"),
        (["predict", f"{tmp_path}/none.png"], "No such file"),
        (["capture", "--count=3"], "--count=3: must be 10 or more"),
    ):
        done = arm(*arguments)
        assert done.returncode == 2 and expected in done.stderr, (arguments, done.stderr)
        assert len(done.stderr.splitlines()) == 1


def test_a_picture_that_was_changed_is_noticed(pictures, tmp_path):
    assert arm("capture", f"--data={tmp_path}", "--count=10").returncode == 0
    one = tmp_path / "img" / "000004.png"
    one.write_bytes((tmp_path / "img" / "000005.png").read_bytes())
    with pytest.raises(UserError, match="not the picture that the manifest names"):
        capture.load(tmp_path)
