"""Keys by name, as key events of RFB number them, and as windows of pygame do."""

from collections.abc import Iterable

from user_error import UserError, closest

KEYSYMS = {
    **{
        chr(code): code for code in (*range(ord("0"), ord("9") + 1), *range(ord("a"), ord("z") + 1))
    },
    "space": 0x20,
    "backspace": 0xFF08,
    "tab": 0xFF09,
    "return": 0xFF0D,
    "escape": 0xFF1B,
    "left": 0xFF51,
    "up": 0xFF52,
    "right": 0xFF53,
    "down": 0xFF54,
    "shift": 0xFFE1,
    "ctrl": 0xFFE3,
    "alt": 0xFFE9,
}
# With shift, on the American keyboard of the X servers here.
_SHIFTED = {
    **{chr(code): code - 32 for code in range(ord("a"), ord("z") + 1)},
    **{str(digit): ord(sign) for digit, sign in enumerate(")!@#$%^&*(")},
}
MODIFIERS = ("shift", "ctrl", "alt")
POINTER = "pointer"  # what a click is called among keys that were pressed
# pygame's names where they differ.
PYGAME_NAMES = {"left shift": "shift", "left ctrl": "ctrl", "left alt": "alt"}


def check(name: str, told: str) -> str:
    """The name of a key; a UserError that begins with ``told`` if there is none of that name."""
    if name not in KEYSYMS:
        raise UserError(f"{told}: there is no key {name!r}. {closest(name, KEYSYMS)}")
    return name


def keysym(name: str, shifted: bool) -> int:
    """The number of a key. For that of a small letter, servers take back a shift that is down."""
    return _SHIFTED.get(name, KEYSYMS[name]) if shifted else KEYSYMS[name]


def in_order(names: Iterable[str]) -> list[str]:
    """Keys that are pressed together, in the order in which each has its effect on the others."""
    return sorted(names, key=lambda name: name not in MODIFIERS)
