"""Pictures of the arm with labels: random poses, light, colours, patterns and things around."""

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

import flags
from environments.python.arm import model
from environments.python.mujoco_pictures import cannot_draw, named
from sandbox.arm import geometry, wallpaper
from trainer.storage.records import write_whole
from user_error import UserError

MANIFEST = "manifest.jsonl"
TELL_EVERY = 500


class Pictures(NamedTuple):
    """What a folder holds, in the order of its manifest."""

    images: np.ndarray  # uint8 [N, H, W, 3]
    poses: np.ndarray  # [N, 6]
    checksums: np.ndarray  # [N], by which a picture is known again


class Studio:
    """Draws the arm as a seed says."""

    def __init__(self, size: int):
        os.environ.setdefault("MUJOCO_GL", "egl")
        try:
            import mujoco  # with the OpenGL that is chosen above
        except ModuleNotFoundError:
            raise
        except Exception as error:  # each OpenGL has errors of its own
            raise cannot_draw(named(error)) from error
        self._mujoco, self.model = mujoco, wallpaper.papered(model.xml())
        try:
            self._renderer = mujoco.Renderer(self.model, size, size)
        except Exception as error:
            raise cannot_draw(named(error)) from error
        self.data, self.camera = mujoco.MjData(self.model), mujoco.MjvCamera()
        self._colours = self.model.geom_rgba.copy()

    def picture(self, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A picture [H, W, 3] and its pose [6]."""
        pose = random.uniform(geometry.LOW, geometry.HIGH)
        self._decorate(random)
        return self.drawn(pose), pose

    def drawn(self, pose: np.ndarray) -> np.ndarray:
        """The picture [H, W, 3] of a pose [6]."""
        self.data.qpos[:] = pose[3:]
        self._mujoco.mj_forward(self.model, self.data)
        self.camera.lookat[:] = model.CENTRE
        self.camera.distance = pose[0]
        self.camera.elevation, self.camera.azimuth = np.degrees(pose[1:3])
        self._renderer.update_scene(self.data, self.camera)
        return self._renderer.render()

    def close(self) -> None:
        """Frees the renderer."""
        self._renderer.close()

    def _decorate(self, random: np.random.Generator) -> None:
        """Other light, patterns and things around; the arm's own colours change a little."""
        colours, world = self.model.geom_rgba, self.model
        colours[:, :3] = np.clip(
            self._colours[:, :3] + random.normal(0, 0.05, [len(colours), 3]), 0, 1
        )
        wallpaper.hang(world, random)
        for index in range(model.CLUTTER):
            geom = world.geom(f"clutter_{index}")
            angle, away = random.uniform(0, 2 * np.pi), random.uniform(0.75, 2.5)
            geom.size[:] = random.uniform(0.03, 0.2, 3)
            geom.pos[:] = (away * np.cos(angle), away * np.sin(angle), geom.size[2])
        light = world.light("light")
        light.pos[:] = (*random.uniform(-1.5, 1.5, 2), random.uniform(1.5, 3.5))
        light.dir[:] = -light.pos / np.linalg.norm(light.pos)
        light.diffuse[:] = random.uniform(0.4, 0.9) * random.uniform(0.85, 1, 3)


def capture(folder: Path, count: int, size: int, seed: int) -> None:
    """Writes pictures, labels and the manifest; a run that was interrupted is continued."""
    for part in ("img", "label"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    with _held(folder):
        _capture(folder, count, size, seed)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keeps others from capturing into the same folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(
            f"--data={folder}: another capture is writing there. Wait for it, or choose another "
            "folder."
        ) from None
    finally:
        os.close(descriptor)


def _capture(folder: Path, count: int, size: int, seed: int) -> None:
    there = _continued(folder, size, seed)
    if there >= count:
        print(f"{there:,} pictures are there already", flush=True)
        return
    studio = Studio(size)
    with open(folder / MANIFEST, "a") as manifest:
        if not there and not manifest.tell():
            manifest.write(json.dumps({"size": size, "seed": seed, "names": geometry.NAMES}) + "\n")
        for index in range(there, count):
            image, pose = studio.picture(np.random.default_rng([seed, index]))
            manifest.write(json.dumps(_written(folder, index, image, pose)) + "\n")
            if (index + 1) % TELL_EVERY == 0 or index + 1 == count:
                manifest.flush()
                print(f"{index + 1:,} of {count:,} pictures", flush=True)
    studio.close()


def _written(folder: Path, index: int, image: np.ndarray, pose: np.ndarray) -> dict[str, Any]:
    """Writes a picture and its label; returns its line of the manifest."""
    name = f"{index:06d}"
    png = cv2.imencode(".png", image[:, :, ::-1])[1].tobytes()
    numbers = [float(pose[0]), *map(float, np.degrees(pose[1:]))]
    label = dict(zip(geometry.NAMES, numbers, strict=True))
    (folder / "img" / f"{name}.png").write_bytes(png)
    (folder / "label" / f"{name}.json").write_text(json.dumps(label) + "\n")
    return {"name": name, "sha256": hashlib.sha256(png).hexdigest(), **label}


def _continued(folder: Path, size: int, seed: int) -> int:
    """How many pictures there are; a line that was cut off is dropped."""
    path = folder / MANIFEST
    if not path.exists():
        return 0
    lines = _whole_lines(path)
    head = _read_line(folder, 1, lines[0], ("size", "seed")) if lines else {}
    if "".join(lines) != path.read_text(errors="replace"):
        write_whole(path, "".join(lines).encode())
    if not lines:
        return 0
    if (head["size"], head["seed"]) != (size, seed):
        raise UserError(
            f"--data={folder}: its pictures have --size={head['size']} --seed={head['seed']}. Give "
            "these, or choose another folder."
        )
    return len(lines) - 1


def _whole_lines(path: Path) -> list[str]:
    """The lines of a manifest; the last one may have been cut off."""
    text = path.read_text(errors="replace")
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _read_line(folder: Path, number: int, line: str, names: Sequence[str]) -> dict[str, Any]:
    """What a line of a manifest tells; it has these names."""
    try:
        told = json.loads(line)
        return {name: told[name] for name in names}
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"--data={folder}: line {number} of its {MANIFEST} is damaged, or not of pictures of "
            "an arm. Choose another folder."
        ) from None


def load(folder: Path, size: int = 0) -> Pictures:
    """The pictures of a folder, resized to ``size`` pixels of a side unless that is 0."""
    try:
        lines = _whole_lines(folder / MANIFEST)[1:]
    except OSError as error:
        raise UserError(
            f"--data={folder}: {MANIFEST} cannot be read ({error.strerror}). Make pictures first: "
            + flags.with_this_python("python -m sandbox.arm capture.")
        ) from None
    if len(lines) < 2:
        raise UserError(
            f"--data={folder}: its {MANIFEST} lists {len(lines)} pictures, expected 2 or more. "
            + flags.with_this_python("Continue: python -m sandbox.arm capture.")
        )
    names = ("name", "sha256", *geometry.NAMES)
    rows = [_read_line(folder, number, line, names) for number, line in enumerate(lines, 2)]
    files = ((folder / "img" / f"{row['name']}.png", row["sha256"]) for row in rows)
    # One after the other: all of them at their own size, or twice, may not fit into memory.
    read = (resized(_read(*file), size) for file in files)
    first = next(read)
    kind = np.dtype((np.uint8, first.shape))
    images = np.fromiter(itertools.chain([first], read), kind, len(rows))
    poses = np.array([[row[name] for name in geometry.NAMES] for row in rows])
    poses[:, 1:] = np.radians(poses[:, 1:])
    return Pictures(images, poses, np.array([row["sha256"] for row in rows]))


def resized(image: np.ndarray, size: int) -> np.ndarray:
    """A picture with so many pixels a side; 0 leaves it as it is."""
    if not size or image.shape[:2] == (size, size):
        return image
    return cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)


def _read(path: Path, checksum: str) -> np.ndarray:
    content = path.read_bytes() if path.exists() else b""
    if hashlib.sha256(content).hexdigest() != checksum:
        raise UserError(f"{path} is missing or not the picture that the manifest names.")
    return decode(content, str(path))


def decode(content: bytes, name: str) -> np.ndarray:
    """An image file's content as RGB [H, W, 3]."""
    data = np.frombuffer(content, np.uint8)
    image = cv2.imdecode(data, cv2.IMREAD_COLOR) if content else None
    if image is None:
        raise UserError(f"{name} is not a picture that OpenCV can read.")
    return image[:, :, ::-1]
