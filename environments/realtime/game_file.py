"""The description of a program that is served on a desktop: `--game=FILE.yaml`."""

import math
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from environments import descriptions
from environments.realtime import stamp
from environments.realtime.actions import Action, described, parse
from environments.realtime.rfb import LARGEST_DESKTOP
from environments.view import View, refuse
from user_error import UserError, closest


@dataclass(frozen=True)
class Box:
    """A part of the picture, in pixels."""

    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True)
class GameFile:
    """A program with a window, and where its score comes from."""

    folder: Path  # of the file; the program starts there
    command: tuple[str, ...]
    width: int  # of the desktop
    height: int
    fps: float
    actions: tuple[Action, ...]
    # Where digits are, and ten pictures of them side by side; or package.module:function, which
    # gets the picture and returns the score, or None where it cannot be seen.
    score: tuple[Box, Path] | str
    # What is seen when a game is over: package.module:function, or seconds without a new score.
    end: str | float
    reset: tuple[Action, ...]  # pressed one after the other; without them, it is started again
    starts_within_s: float  # until the first score is seen
    still_s: float  # that its picture may stay the same though keys are pressed; 0: any time


MOST_FPS = 240
_MOST = {
    "width": LARGEST_DESKTOP,
    "height": LARGEST_DESKTOP - stamp.HEIGHT,
    "fps": MOST_FPS,
    "starts_within_s": 3600,
}
_REQUIRED = ("command", "width", "height", "actions", "score", "end")
_DEFAULTS: dict[str, Any] = {"fps": 30.0, "reset": [], "starts_within_s": 20.0, "still_s": 5.0}


def read(path: str, view: View, flag: str = "--game=") -> GameFile:
    """The program that a file describes; a UserError names what is wrong with it."""
    unfit = ("env_kwargs", "wrappers", "full_action_set")
    refuse(view, unfit, f"is for levels, but {path} describes a program.")
    told = f"{flag}{path}"
    given = descriptions.read(path, told)
    known = [field.name for field in fields(GameFile) if field.name != "folder"]
    if not isinstance(given, dict):
        raise UserError(f"{told}: expected {', '.join(known)}.")
    for key in given:
        if key not in known:
            raise UserError(f"{told}: there is no entry {key!r}. {closest(str(key), known)}")
    for key in _REQUIRED:
        if key not in given:
            raise UserError(f"{told}: {key} is missing.")
    given = {**_DEFAULTS, **given}
    for key, most in _MOST.items():
        is_whole = key in ("width", "height")
        # Also of nan, which compares with nothing.
        if not _is_number(given[key], is_whole) or not 0 < given[key] <= most:
            kind = "whole number" if is_whole else "number"
            raise UserError(
                f"{told}: {key}: {given[key]!r}: expected a {kind} above 0, at most {most:g}."
            )
    if not _is_number(given["still_s"]) or not 0 <= given["still_s"] < math.inf:
        raise UserError(f"{told}: still_s: {given['still_s']!r}: expected seconds, or 0.")
    folder, size = Path(path).resolve().parent, (given["width"], given["height"])
    return GameFile(
        folder=folder,
        command=_command(given["command"], told),
        width=size[0],
        height=size[1],
        fps=float(given["fps"]),
        actions=described(given["actions"], folder, size, told),
        score=_score(given["score"], folder, size, told),
        end=_end(given["end"], told),
        reset=_reset(given["reset"], size, told),
        starts_within_s=float(given["starts_within_s"]),
        still_s=float(given["still_s"]),
    )


def _is_number(given: Any, is_whole: bool = False) -> bool:
    """Whether it is one of YAML's; Python counts true and false among them."""
    return isinstance(given, int if is_whole else (int, float)) and not isinstance(given, bool)


def _command(given: Any, told: str) -> tuple[str, ...]:
    try:
        words = shlex.split(given) if isinstance(given, str) else []
    except ValueError as error:
        raise UserError(f"{told}: command: {given!r}: it cannot be read ({error}).") from None
    if not words:
        raise UserError(
            f"{told}: command: {given!r}: expected a program and its arguments in one line."
        )
    return tuple(words)


def _reset(given: Any, size: tuple[int, int], told: str) -> tuple[Action, ...]:
    if given is not None and not isinstance(given, list):
        raise UserError(f"{told}: reset: {given!r}: expected a list, such as [tap space].")
    return parse(["none", *given], told, size)[1:] if given else ()


def _score(given: Any, folder: Path, size: tuple[int, int], told: str) -> tuple[Box, Path] | str:
    if isinstance(given, str) and ":" in given:
        return given
    try:
        box = Box(*(int(number) for number in given["box"]))
        digits = folder / given["digits"]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UserError(
            f"{told}: score: {given!r}: expected package.module:function, or box: [left, top, "
            "width, height] and digits: a picture of 0123456789."
        ) from None
    right, bottom = box.left + box.width, box.top + box.height
    inside = 0 <= box.left < right <= size[0] and 0 <= box.top < bottom <= size[1]
    if not inside:
        raise UserError(
            f"{told}: score: box: {given['box']!r}: expected left, top, width and height of a part "
            f"of the {size[0]} × {size[1]} pixels."
        )
    if not digits.is_file():
        raise UserError(f"{told}: score: there is no picture {digits}.")
    return box, digits


def _end(given: Any, told: str) -> str | float:
    if isinstance(given, str) and ":" in given:
        return given
    if _is_number(given) and given > 0:
        return float(given)
    raise UserError(
        f"{told}: end: {given!r}: expected package.module:function, or seconds without a new score."
    )
