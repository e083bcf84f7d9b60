"""The arm in pictures: what is drawn, what a folder of it holds, and what a network makes of it."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf

from environments.python.arm import model
from environments.python.mujoco_pictures import NEEDS
from sandbox.arm import __main__ as program
from sandbox.arm import capture, evaluation, geometry, network, training
from tests.pictures import coloured
from tests.trainer.disks import files_limited_to
from user_error import UserError

pytestmark = pytest.mark.xdist_group("arm")  # they share their pictures

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


def here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has imported TensorFlow already."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = program.main(list(arguments))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


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
    images, known, _ = capture.load(pictures)
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
    beyond = geometry.HIGH + [0, *[0.02] * 5], geometry.LOW - [0, *[0.02] * 5]
    ends = geometry.HIGH, geometry.LOW
    np.testing.assert_allclose(geometry.decoded(geometry.encoded(np.stack(beyond))), ends)


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
    before = manifest.stat()
    fewer = here("capture", f"--data={tmp_path}", "--count=10")
    assert fewer.returncode == 0 and fewer.stdout == "12 pictures are there already\n"
    assert manifest.stat().st_ino == before.st_ino  # it was not written again
    other = here("capture", f"--data={tmp_path}", "--count=12", "--seed=2")
    assert other.returncode == 2 and "have --size=96 --seed=1" in other.stderr


def test_a_network_learns_and_is_kept_evaluated_and_asked(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "BATCH", 32)  # which learns as well, in a quarter of the time
    weights = tmp_path / "network.npz"
    flags = [f"--data={pictures}", f"--network={weights}"]
    trained = here("train", *flags, "--updates=40")
    assert trained.returncode == 0, trained.stderr
    images, known, checksums = capture.load(pictures)
    kept_network, about, seen, optimizer = network.load(weights)
    assert about == {"trained_with": COUNT * 9 // 10, "updates": 40, "of": 40, "seed": 1}
    assert not optimizer  # which nothing needs any more
    assert (seen == checksums[: len(seen)]).all() and len(seen) == COUNT * 9 // 10
    predicted = network.predict(kept_network, images)
    tf.random.set_seed(1)
    fresh = network.predict(network.built(), images)  # as it was before
    own = evaluation.errors(predicted["direct"], known).mean()
    assert own < 0.8 * evaluation.errors(fresh["direct"], known).mean()
    before = weights.read_bytes()
    again = here("train", *flags, "--updates=40")
    assert again.returncode == 0 and "is trained already" in again.stdout
    assert weights.read_bytes() == before
    done = here("evaluate", *flags)
    assert done.returncode == 0 and "mean predictor" in done.stdout, done.stderr
    kept = json.loads((tmp_path / "evaluation.json").read_text())
    assert kept["trained_with"] == COUNT * 9 // 10 and kept["updates"] == 40
    assert kept["pictures"] == COUNT // 10 and set(kept["errors"]) == {
        "direct", "geometry", "mean predictor"
    }  # fmt: skip
    assert coloured(tmp_path / "predictions.png") > 0
    asked = arm("predict", str(pictures / "img" / "000003.png"), *flags)
    assert set(json.loads(asked.stdout)["geometry"]) == set(geometry.NAMES)
    # A capture that was smaller has the same pictures, of which the last tenth was trained with.
    lines = (pictures / capture.MANIFEST).read_text().splitlines(keepends=True)
    smaller = tmp_path / "smaller"
    smaller.mkdir()
    (smaller / "img").symlink_to(pictures / "img")
    (smaller / capture.MANIFEST).write_text("".join(lines[:101]) + lines[101][:-30])  # cut off
    assert len(capture.load(smaller, 32).images) == 100
    assert capture.load(smaller, 32).images.shape[1:] == (32, 32, 3)
    refused = here("evaluate", f"--data={smaller}", f"--network={weights}")
    assert refused.returncode == 2 and "trained with 10 of its last 10" in refused.stderr


def test_a_network_that_does_not_say_how_it_was_trained_is_used_nevertheless(pictures, tmp_path):
    weights = {f"{index:02d}": one.numpy() for index, one in enumerate(network.built().variables)}
    np.savez(tmp_path / "network.npz", **weights)
    flags = [f"--data={pictures}", f"--network={tmp_path}/network.npz"]
    asked = here("predict", str(pictures / "img" / "000003.png"), *flags)
    assert set(json.loads(asked.stdout)["geometry"]) == set(geometry.NAMES)
    done = here("evaluate", *flags)
    assert done.returncode == 0, done.stderr
    assert "network.npz does not say which pictures it has seen" in done.stdout


class Stopped(Exception):
    """A training ends early."""


def test_a_training_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "KEEP_EVERY", 2)
    monkeypatch.setattr(training, "BATCH", 8)
    monkeypatch.setattr(training, "NOISE", 0.0)  # it is drawn afresh
    monkeypatch.setattr(capture, "load", lambda *_: pictures)
    images = np.random.default_rng(1).integers(
        0, 255, [10, network.SIZE, network.SIZE, 3], np.uint8
    )
    pictures = capture.Pictures(images, poses(10), np.array([f"{index}" for index in range(10)]))
    flags = ["train", f"--network={tmp_path}/whole.npz", "--updates=5"]
    assert program.main(flags) == 0
    whole = network.load(tmp_path / "whole.npz")

    path, save = tmp_path / "stopped.npz", network.save
    flags = ["train", f"--network={path}", "--updates=5"]

    def stops(*given):
        save(*given)
        raise Stopped

    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(network, "save", stops)
        program.main(flags)
    assert network.load(path).about["updates"] == 2
    capsys.readouterr()
    for wrong, told in (
        ("--updates=6", "its training has --updates=5 --seed=1. Give these"),
        ("--seed=2", "its training has --updates=5 --seed=1. Give these"),
    ):
        assert program.main([*flags, wrong]) == 2
        assert told in capsys.readouterr().err
    assert program.main(flags) == 0
    assert f"Resuming from {path} at 2 of 5 updates." in capsys.readouterr().out
    on = network.load(path)
    assert on.about == whole.about
    for one, other in zip(on.network.variables, whole.network.variables, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-6)


def test_a_network_of_other_pictures_or_of_an_unknown_training_is_left_as_it_is(tmp_path):
    path, seen = tmp_path / "network.npz", np.array(["a", "b"])
    network.save(network.built(), path, {"of": 5, "seed": 1, "updates": 2}, seen)
    with pytest.raises(UserError, match="was trained with other pictures. Give their --data"):
        training.begun(path, 5, 1, np.array(["a", "c"]))
    network.save(network.built(), path, {"updates": 5, "seed": 1}, seen)
    with pytest.raises(UserError, match="does not say how its training would go on"):
        training.begun(path, 5, 1, seen)


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_few_pictures_are_drawn_as_well(count, tmp_path):
    images = np.zeros([count, 96, 96, 3], np.uint8)
    evaluation.draw(tmp_path / "few.png", images, poses(count), poses(count))
    assert coloured(tmp_path / "few.png") > 0


def test_a_full_disk_leaves_an_earlier_evaluation_as_it_was(tmp_path):
    images = np.zeros([4, 96, 96, 3], np.uint8)
    found = evaluation.figures({"direct": poses(4)}, poses(4))
    picture = tmp_path / "predictions.png"
    evaluation.write(tmp_path, found, {"pictures": 1})
    evaluation.draw(picture, images, poses(4), poses(4))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with files_limited_to(20):
        with pytest.raises(OSError):
            evaluation.write(tmp_path, found, {"pictures": 2})
        with pytest.raises(OSError):
            evaluation.draw(picture, images, poses(4), poses(4, seed=1))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_mistakes_are_one_line(pictures, tmp_path, capsys):
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "half.npz").write_bytes(b"PK\x03\x04half")
    (tmp_path / "empty.png").write_bytes(b"")
    cv2.imwrite(str(tmp_path / "wide.png"), np.zeros([96, 128, 3], np.uint8))
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "begun").mkdir()
    head = (pictures / capture.MANIFEST).read_text().splitlines(keepends=True)[0]
    (tmp_path / "begun" / capture.MANIFEST).write_text(head)
    for name, content in (("other", "[]\n"), ("torn", head + "{}\n" * 3), ("bytes", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / capture.MANIFEST).write_text(content)
    (tmp_path / "bytes" / capture.MANIFEST).write_bytes(b"\xff\xfe\n")
    for arguments, expected in (
        (["grab"], "'grab' is unknown; expected capture"),
        (["train", f"--data={tmp_path}"], "Make pictures first"),
        (["train", f"--data={tmp_path}/begun"], "lists 0 pictures, expected 2 or more"),
        (["train", f"--data={tmp_path}/torn"], "torn: line 2 of its manifest.jsonl is damaged"),
        (["capture", f"--data={tmp_path}/other"], "other: line 1 of its manifest.jsonl is dam"),
        (["capture", f"--data={tmp_path}/bytes"], "bytes: line 1 of its manifest.jsonl is dam"),
        (["train", f"--network={tmp_path}/text.png/x.npz"], "text.png: File exists"),
        (["train", f"--network={tmp_path}/folder.npz"], "folder.npz: Is a directory"),
        (["evaluate", f"--data={pictures}", f"--network={tmp_path}/x.npz"], "Train one first"),
        (["evaluate", f"--data={pictures}", f"--network={tmp_path}/half.npz"], "cannot be read"),
        (["evaluate", f"--data={pictures}", f"--network={tmp_path}/empty.npz"], "cannot be read"),
        (["train", f"--data={pictures}", f"--network={tmp_path}/array.npz"], "holds one array"),
        (["predict"], "expected the name of one picture"),
        (["train", "--network=weights"], "--network=weights: expected a name that ends with .npz"),
        (["predict", f"{tmp_path}/text.png"], "is not a picture"),
        (["predict", f"{tmp_path}/empty.png"], "is not a picture"),
        (["predict", f"{tmp_path}/wide.png"], "has 128 × 96 pixels; expected a square"),
        (["predict", f"{tmp_path}/none.png"], "No such file"),
        (["capture", "--count=3"], "--count=3: must be 10 or more"),
    ):
        code, told = program.main(arguments), capsys.readouterr().err
        assert code == 2 and expected in told, (arguments, told)
        assert len(told.splitlines()) == 1
    assert program.main(["predict", "-h"]) == 0
    assert "python -m sandbox.arm predict PICTURE.png" in capsys.readouterr().out


def test_two_captures_do_not_write_into_one_folder(tmp_path):
    with (
        capture._held(tmp_path),
        pytest.raises(UserError, match="another capture is writing there"),
    ):
        capture.capture(tmp_path, 10, 64, 1)
    assert not (tmp_path / capture.MANIFEST).exists()


def test_a_picture_that_was_changed_is_noticed(pictures, tmp_path):
    assert arm("capture", f"--data={tmp_path}", "--count=10").returncode == 0
    one = tmp_path / "img" / "000004.png"
    one.write_bytes((tmp_path / "img" / "000005.png").read_bytes())
    with pytest.raises(UserError, match="not the picture that the manifest names"):
        capture.load(tmp_path)
