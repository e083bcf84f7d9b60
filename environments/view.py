"""How a level is shown to its agent, as flags say it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from user_error import UserError

# Where things move by themselves, one picture does not tell where to.
FRAMES_OF_MOTION = 4


class Crop(NamedTuple):
    """The part of a picture that is kept."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True)
class View:
    """What agents see of a level and how it is built; the same for training and testing.

    `num_action_repeats` is the number of times that each action is repeated. Pictures are cropped
    and resized to `width` × `height`. `frame_stack` is the number of the newest observations that
    an agent sees at once (0: as usual for the level). `full_action_set` and `frame_skip`
    are for Atari; `colour` for Atari, Doom and worlds in real time; `action_masks`, `env_kwargs`
    and `wrappers` for environments written in Python; `action_set` for worlds in real time and web
    pages; `fps` for worlds in real time; `tell_bodies` for games of several bodies.
    """

    num_action_repeats: int = 1
    width: int = 84
    height: int = 84
    crop: str = ""  # top,left,height,width
    frame_stack: int = 0
    full_action_set: bool = False
    frame_skip: int = 4
    colour: bool = False
    action_masks: bool = False  # the end of an observation says which actions are allowed
    env_kwargs: str = ""  # a JSON object, or key=value,key=value
    wrappers: str = ""  # package.module:name,package.module:name
    action_set: str = ""
    fps: float = 0.0  # frames a second of a world in real time; 0: as usual for it
    tell_bodies: str = "auto"  # auto, mark, mirror, none

    def crop_of(self, height: int, width: int) -> Crop | None:
        """The part to keep of a picture of this size, None for all of it."""
        if not self.crop:
            return None
        try:
            crop = Crop(*(int(number) for number in self.crop.split(",")))
        except (TypeError, ValueError):
            raise UserError(
                f"--crop={self.crop}: expected four whole numbers, top,left,height,width."
            ) from None
        inside = crop.top + crop.height <= height and crop.left + crop.width <= width
        if min(crop) < 0 or min(crop.height, crop.width) == 0 or not inside:
            raise UserError(
                f"--crop={self.crop} is not within the picture, which is {height} high and "
                f"{width} wide; expected top,left,height,width."
            )
        return crop

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments of `env_kwargs`. Values that are not JSON are text."""
        text = self.env_kwargs.strip()
        if not text.startswith("{"):
            return dict(_key_and_value(pair) for pair in text.split(",") if pair)
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise UserError(f"--env_kwargs={text} is not a JSON object: {error}.") from None

    @property
    def made_with(self) -> dict[str, str]:
        """The flags by which a level is made, each in one form however it was written."""
        kwargs = self.kwargs
        return {
            "env_kwargs": json.dumps(kwargs, sort_keys=True) if kwargs else "",
            "wrappers": ",".join(self.wrapper_names),
        }

    @property
    def wrapper_names(self) -> list[str]:
        """The names of `wrappers`, the innermost first."""
        return [name.strip() for name in self.wrappers.split(",") if name.strip()]


def refuse(flags: Any, names: Sequence[str], reason: str, **own: Any) -> None:
    """A UserError for the first of these fields that is not as usual; `reason` says why.

    `flags` are a `View`, or another dataclass of flags; `own` are values that the level has anyway,
    which may be given, too. Presets and checkpoints have flags as well, so it says what to give.
    """
    usual = {field.name: field.default for field in fields(flags)}
    for name in names:
        value, fits = getattr(flags, name), own.get(name, usual[name])
        if value not in (usual[name], fits):
            given = "" if value is True else f"={value}"
            raise UserError(f"--{name}{given} {reason} Give --{name}={repr(fits).lower()}.")


def _key_and_value(pair: str) -> tuple[str, Any]:
    key, equals, value = pair.partition("=")
    if not equals or not key.strip().isidentifier():
        raise UserError(
            f"--env_kwargs: {pair!r} is not key=value; expected key=value,key=value or a JSON "
            "object, which values with commas need."
        )
    return key.strip(), _value(value.strip())


def _value(text: str) -> Any:
    python = {"True": True, "False": False, "None": None}
    if text in python:
        return python[text]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
