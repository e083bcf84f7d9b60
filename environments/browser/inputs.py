"""What actions do with keys and pointer, as commands of the DevTools protocol."""

from collections.abc import Collection, Iterator

from environments.browser.chromium import Command
from environments.realtime.actions import Action
from environments.realtime.keys import keysym

# What DevTools calls keys: key, code, number.
_KEYS = {
    "left": ("ArrowLeft", "ArrowLeft", 37),
    "up": ("ArrowUp", "ArrowUp", 38),
    "right": ("ArrowRight", "ArrowRight", 39),
    "down": ("ArrowDown", "ArrowDown", 40),
    "space": (" ", "Space", 32),
    "return": ("Enter", "Enter", 13),
    "escape": ("Escape", "Escape", 27),
    "tab": ("Tab", "Tab", 9),
    "backspace": ("Backspace", "Backspace", 8),
    "shift": ("Shift", "ShiftLeft", 16),
    "ctrl": ("Control", "ControlLeft", 17),
    "alt": ("Alt", "AltLeft", 18),
}
_WRITTEN = {"Enter": "\r"}  # what keys write that have a name
_MODIFIERS = {"alt": 1, "ctrl": 2, "shift": 8}


class Inputs:
    """The keys and the pointer of a page."""

    def __init__(self) -> None:
        self._held: frozenset[str] = frozenset()
        self._dragged: tuple[int, int] | None = None

    def changes(self, action: Action) -> Iterator[Command]:
        """The commands that make keys and pointer those of an action."""
        if self._dragged and not action.drag:
            yield _pointer("mouseReleased", self._dragged)
        for key in self._held - action.held:
            yield _key(key, "keyUp", action.held)
        for key in action.held - self._held:
            yield _key(key, "keyDown", action.held)
        self._held = action.held
        for index, key in enumerate(action.tapped):
            yield _key(key, "keyDown", {*action.held, *action.tapped[:index]})
        for index, key in reversed(list(enumerate(action.tapped))):
            yield _key(key, "keyUp", {*action.held, *action.tapped[:index]})
        if place := action.click or action.drag:
            goes_on = bool(action.drag and self._dragged)
            yield _pointer("mouseMoved", place, pressed=goes_on)
            if not goes_on:
                yield _pointer("mousePressed", place)
            if action.click:
                yield _pointer("mouseReleased", place)
        self._dragged = action.drag


def _pointer(kind: str, place: tuple[int, int], pressed: bool = True) -> Command:
    """Moves, presses or releases the pointer; `pressed`: while its button is down."""
    button = "left" if pressed else "none"
    where = {"x": place[0], "y": place[1], "button": button, "buttons": int(pressed)}
    return "Input.dispatchMouseEvent", {"type": kind, **where, "clickCount": 1}


def _key(name: str, kind: str, held: Collection[str]) -> Command:
    """Presses or releases a key while others are held."""
    kind_of_code = "Digit" if name.isdigit() else "Key"
    known = _KEYS.get(name)
    key, code, number = known or (name, f"{kind_of_code}{name.upper()}", ord(name.upper()))
    if "shift" in held and len(key) == 1:
        key = chr(keysym(name, shifted=True))
    writes = kind == "keyDown" and not {"ctrl", "alt"} & {*held}
    text = {"text": _WRITTEN.get(key, key)} if writes and len(_WRITTEN.get(key, key)) == 1 else {}
    names = {"key": key, "code": code, "windowsVirtualKeyCode": number}
    modifiers = sum(_MODIFIERS.get(one, 0) for one in held)
    return "Input.dispatchKeyEvent", {"type": kind, **names, **text, "modifiers": modifiers}
