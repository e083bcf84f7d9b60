"""What each action of an agent does with the keys and the pointer of a desktop."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import descriptions
from environments.names import DESCRIPTIONS
from environments.realtime import keys
from user_error import UserError

CELL = 10  # pixels a side, of `pointer_grid`
# In the order of the Arcade Learning Environment's 18 actions.
_ATARI = (
    "none", "space", "up", "right", "left", "down",
    "up+right", "up+left", "down+right", "down+left",
    "up+space", "right+space", "left+space", "down+space",
    "up+right+space", "up+left+space", "down+right+space", "down+left+space",
)  # fmt: skip
SETS: dict[str, tuple[str, ...]] = {
    "atari": _ATARI,
    "arrows": ("none", "left", "right", "up", "down"),
    "tap": ("none", "tap space"),
}
POINTER_GRID, DESKTOP = "pointer_grid", "desktop"
NAMES = (*SETS, POINTER_GRID, DESKTOP)
_TYPED = (*"abcdefghijklmnopqrstuvwxyz0123456789", "space", "backspace", "tab", "return")


@dataclass(frozen=True)
class Action:
    """Keys that are held until the next action, keys tapped together, a click; or nothing."""

    held: frozenset[str] = frozenset()
    tapped: tuple[str, ...] = ()
    click: tuple[int, int] | None = None  # x, y in pixels of the desktop
    drag: tuple[int, int] | None = None  # the pointer is pressed there until an action without

    @property
    def keys(self) -> frozenset[str]:
        """All that it presses, the pointer among them."""
        return self.held | {*self.tapped} | ({keys.POINTER} if self.click or self.drag else set())


def action_set(
    name: str, size: tuple[int, int] | None = None, told: str = ""
) -> tuple[Action, ...]:
    """The actions of a named set, or of a YAML file that lists them.

    `size` is the width and height of the desktop's picture, which the pointer's sets cover. `told`
    says where the name was given, unless by --action_set.
    """
    told = told or f"--action_set={name}"
    if name in SETS:
        return parse(SETS[name], name)
    if name in (POINTER_GRID, DESKTOP):
        if size is None:
            raise UserError(f"{told}: the size of the desktop is not known here.")
        return pointer_grid(*size) if name == POINTER_GRID else desktop(*size)
    if not name.endswith(DESCRIPTIONS):
        raise UserError(f"{told}: expected {', '.join(NAMES)} or a .yaml file with a list.")
    return parse(descriptions.read(name, told), told, size)


def described(given: Any, folder: Path, size: tuple[int, int], told: str) -> tuple[Action, ...]:
    """The actions of a description in a folder: a list, a file, or the name of a set.

    A file is beside the description or, if there is none, in the current folder. `told` names the
    description in errors.
    """
    told = f"{told}: actions"
    if not isinstance(given, str):
        return parse(given, told, size)
    beside = folder / given
    is_beside = given.endswith(DESCRIPTIONS) and (beside.exists() or not Path(given).exists())
    return action_set(str(beside) if is_beside else given, size, f"{told}: {given}")


def pointer_grid(width: int, height: int) -> tuple[Action, ...]:
    """No click, and a click in the middle of each cell of a grid."""
    return (Action(), *(Action(click=middle) for middle in _middles(width, height, CELL)))


def desktop(width: int, height: int) -> tuple[Action, ...]:
    """What people do at a desktop: nothing, clicks, drags, and taps of keys that write."""
    middles = list(_middles(width, height, 2 * CELL))
    return (
        Action(),
        *(Action(click=middle) for middle in middles),
        *(Action(drag=middle) for middle in middles),
        *(Action(tapped=(key,)) for key in _TYPED),
        *(Action(tapped=("shift", key)) for key in _TYPED if key.isalpha() and len(key) == 1),
    )


def _middles(width: int, height: int, cell: int) -> Iterator[tuple[int, int]]:
    """The middle of each cell of a grid, row by row."""
    return (
        (x * cell + cell // 2, y * cell + cell // 2)
        for y in range(height // cell)
        for x in range(width // cell)
    )


def parse(lines: Any, told: str, size: tuple[int, int] | None = None) -> tuple[Action, ...]:
    """Actions as people write them: none, left+up, tap space, click 80,60, drag 90,60.

    ``size`` is the width and height of the picture in which points have to be, if it is known.
    """
    if not isinstance(lines, Sequence) or isinstance(lines, str) or len(lines) < 2:
        raise UserError(f"{told}: expected a list of two actions or more, such as [none, left+up].")
    return tuple(_parsed(str(line), told, size) for line in lines)


@functools.cache
def _parsed(line: str, told: str, size: tuple[int, int] | None) -> Action:
    word, _, rest = line.strip().partition(" ")
    if line.strip() == "none":
        return Action()
    if word == "tap":
        return Action(tapped=tuple(_keys(rest, told)))
    if word in ("click", "drag"):
        try:
            x, y = (int(number) for number in rest.split(","))
        except ValueError:
            raise UserError(
                f"{told}: {line!r}: expected {word} x,y in pixels, all of it in quotes."
            ) from None
        if size and not (0 <= x < size[0] and 0 <= y < size[1]):
            raise UserError(
                f"{told}: {line!r}: expected a point of the {size[0]} × {size[1]} pixels."
            )
        return Action(click=(x, y)) if word == "click" else Action(drag=(x, y))
    return Action(held=frozenset(_keys(line, told)))


def _keys(text: str, told: str) -> list[str]:
    return [keys.check(name.strip(), told) for name in text.split("+")]
