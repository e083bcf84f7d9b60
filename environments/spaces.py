"""Converts Gymnasium's spaces to the few forms that agents support."""

from collections.abc import Callable, Iterable, Iterator

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, TransformObservation

from environments.view import Crop, View
from user_error import UserError, in_short

# Pictures of more channels OpenCV shrinks by whole factors only.
_MOST_CHANNELS = 4
_VECTORS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def is_image(space: spaces.Space) -> bool:
    """Whether the observation is a picture: [H, W, C], or a plain uint8 [H, W]."""
    if not isinstance(space, spaces.Box):
        return False
    return len(space.shape) == 3 or (len(space.shape) == 2 and space.dtype == np.uint8)


def with_plain_observations(env: gymnasium.Env, level_name: str, view: View) -> gymnasium.Env:
    """The environment with images [height, width, C], and all else as one vector [D]."""
    space = env.observation_space
    if isinstance(space, spaces.Box) and not spaces.flatdim(space):
        raise _nothing(space, level_name)
    if is_image(space):
        _check_order(space, level_name)
        return _with_resized_images(env, view)
    if view.crop:
        raise UserError(
            f"--crop={view.crop} is for pictures, but {level_name} observes {in_short(space)}."
        )
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return env
    for name, part in _parts(space):
        if is_image(part):
            raise UserError(
                f"--level_name: {level_name} observes {name}: {in_short(part)}, a picture, beside "
                "other parts; expected a picture alone, or a Dict or Tuple of vectors. A wrapper "
                "of --wrappers can choose between them."
            )
        if not isinstance(part, _VECTORS):
            raise UserError(
                f"--level_name: {level_name} observes {f'{name}: ' if name else ''}"
                f"{in_short(part)}, expected numbers: Box, Discrete, MultiDiscrete, MultiBinary, "
                "or a Dict or Tuple of these."
            )
    if not spaces.flatdim(space):
        raise _nothing(space, level_name)
    return FlattenObservation(env)


def _nothing(space: spaces.Space, level_name: str) -> UserError:
    return UserError(
        f"--level_name: {level_name} observes {space}, in which there is nothing; expected one "
        "number or more. A level without observations can show a constant."
    )


def _check_order(space: spaces.Space, level_name: str) -> None:
    """Refuses pictures that look as if up to four channels came first."""
    first, *others = space.shape or ()
    if len(others) == 2 and first <= 4 < min(others):
        raise UserError(
            f"--level_name: {level_name} observes pictures of shape {space.shape}, expected "
            "[height, width, channels]. A wrapper of --wrappers can turn them."
        )


def _parts(space: spaces.Space, name: str = "") -> Iterator[tuple[str, spaces.Space]]:
    """The spaces that a Dict or Tuple is made of, with their names; any other space itself."""
    if isinstance(space, spaces.Dict):
        inner: Iterable[tuple[object, spaces.Space]] = space.items()
    elif isinstance(space, spaces.Tuple):
        inner = enumerate(space)
    else:
        yield name, space
        return
    for key, part in inner:
        yield from _parts(part, f"{name}.{key}" if name else str(key))


def _with_resized_images(env: gymnasium.Env, view: View) -> gymnasium.Env:
    space = env.observation_space
    assert isinstance(space, spaces.Box)
    channels = space.shape[2] if len(space.shape) == 3 else 1
    kind = np.uint8 if space.dtype == np.uint8 else np.float32
    shape = (view.height, view.width, channels)
    with np.errstate(over="ignore"):
        low, high = space.low.min().astype(kind), space.high.max().astype(kind)
    resized = spaces.Box(low, high, shape, kind)
    crop = view.crop_of(*space.shape[:2])

    def show(image: np.ndarray) -> np.ndarray:
        return shown(image.astype(kind, copy=False), crop, shape)

    return TransformObservation(env, show, resized)


def shown(image: np.ndarray, crop: Crop | None, shape: tuple[int, ...]) -> np.ndarray:
    """The picture, or the part of it that is kept, resized to a shape [height, width, C]."""
    if crop:
        image = image[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
    height, width, _ = shape
    if image.shape[:2] != (height, width):
        image = _resized(image, width, height)
    return image.reshape(shape)


def _resized(image: np.ndarray, width: int, height: int) -> np.ndarray:
    if image.ndim == 2 or image.shape[2] <= _MOST_CHANNELS:
        return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    firsts = range(0, image.shape[2], _MOST_CHANNELS)
    parts = (image[:, :, first : first + _MOST_CHANNELS] for first in firsts)
    return np.dstack([_resized(part, width, height) for part in parts])


def numbers(space: spaces.Space) -> spaces.Box:
    """The same space as the agent gets it: bytes stay bytes, all else is float32."""
    assert isinstance(space, spaces.Box)
    if space.dtype == np.uint8 and len(space.shape) == 3:
        return space
    with np.errstate(over="ignore"):
        low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    return spaces.Box(low, high, dtype=np.float32)


def agent_actions(
    space: spaces.Space, level_name: str
) -> tuple[spaces.Space, Callable[[np.ndarray], np.ndarray]]:
    """The action space of an agent, and the conversion to the environment's own actions.

    Counts start at 0 and axes are flattened. Continuous actions are float32 in the
    environment's own units, clipped to its bounds.
    """
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n)), lambda actions: (actions + int(space.start)).astype(
            space.dtype
        )
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec.ravel()), lambda actions: (
            actions.reshape(-1, *space.shape) + space.start
        ).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        count = int(np.prod(space.shape))
        return spaces.MultiDiscrete([2] * count), lambda actions: actions.reshape(
            -1, *space.shape
        ).astype(space.dtype)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.low.size:
        with np.errstate(over="ignore"):
            low, high = (bound.ravel().astype(np.float32) for bound in (space.low, space.high))
        return spaces.Box(low, high, dtype=np.float32), lambda actions: np.clip(
            actions.reshape(-1, *space.shape), space.low, space.high
        ).astype(space.dtype)
    raise UserError(
        f"--level_name: {level_name} takes actions {in_short(space)}, "
        "expected Discrete, MultiDiscrete, MultiBinary or a Box of floats."
    )
