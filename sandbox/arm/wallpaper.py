"""Patterns on floor, walls and things, so that a network cannot rely on plain surfaces."""

import functools
from typing import Any

import cv2
import numpy as np

from environments.python.arm import model

SIDE = 64  # pixels of a pattern
DARKEST = 0.25  # of a surface's colour, where a pattern is dark
SEED = 7  # the patterns are the same in every picture; their sizes and colours are not
FLOOR = "floor"
REPEATS = (2, 16)  # times that a pattern fits on the floor


@functools.cache
def patterns() -> tuple[np.ndarray, ...]:
    """Brightness [SIDE, SIDE] from 0 to 1: plain, stripes, checks, blobs, speckles."""
    random, grid = np.random.default_rng(SEED), np.arange(SIDE)
    found: list[np.ndarray] = [np.ones([SIDE, SIDE])]
    for width in (4, 8, 16):
        stripes = (grid // width % 2) * np.ones([SIDE, 1])
        found += [stripes, stripes.T, np.abs(stripes - stripes.T)]
        blobs = random.uniform(0, 1, [SIDE // width, SIDE // width])
        found.append(cv2.resize(blobs, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC))
    found.append((random.uniform(0, 1, [SIDE, SIDE]) < 0.9).astype(float))
    return tuple(np.clip(pattern, 0.0, 1.0) for pattern in found)


def papered(xml: str) -> Any:
    """MuJoCo's model of a scene, with a material for each pattern: on the floor, and on boxes."""
    import mujoco  # with the OpenGL that the caller chose

    scene = mujoco.MjSpec.from_string(xml)
    kinds = {FLOOR: mujoco.mjtTexture.mjTEXTURE_2D, "box": mujoco.mjtTexture.mjTEXTURE_CUBE}
    drawn = {f"{kind} {n}": one for kind in kinds for n, one in enumerate(patterns())}
    for name in drawn:
        scene.add_texture(
            name=name,
            type=kinds[name.split()[0]],
            builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT,
            width=SIDE,
            height=SIDE,
        )
        material = scene.add_material(name=name)
        material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
    made = scene.compile()
    for name, pattern in drawn.items():
        texture = made.texture(name)
        pixels = np.repeat(255 * (DARKEST + (1 - DARKEST) * pattern[..., np.newaxis]), 3, axis=2)
        faces = int(made.tex_height[texture.id]) // SIDE
        start = int(made.tex_adr[texture.id])
        made.tex_data[start : start + faces * pixels.size] = np.tile(pixels, (faces, 1, 1)).ravel()
    return made


def hang(made: Any, random: np.random.Generator) -> None:
    """Gives each surface of a ``papered`` scene that is not the arm's a pattern and a colour."""
    walls = [f"wall_{index}" for index in range(4)]
    things = [f"clutter_{index}" for index in range(model.CLUTTER)]
    for name in (FLOOR, *walls, *things):
        geom, kind = made.geom(name), FLOOR if name == FLOOR else "box"
        paper = made.material(f"{kind} {random.integers(len(patterns()))}")
        made.geom_matid[geom.id] = paper.id
        made.geom_rgba[geom.id, :3] = random.uniform(0, 1, 3)
        if kind == FLOOR:
            made.mat_texrepeat[paper.id] = random.uniform(*REPEATS)
