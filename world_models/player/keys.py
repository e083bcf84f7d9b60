"""From keys that are held down to an action."""

from collections.abc import Collection

from environments import EnvironmentSpec

UP, LEFT, DOWN, RIGHT, FIRE = "w", "a", "s", "d", "space"
HELD = (UP, LEFT, DOWN, RIGHT, FIRE)
# Keys that do something at once; digits choose an action by its number.
RESET, WAIT, NOTHING, SAME, QUIT = "r", "c", "n", "x", "q"
COMMANDS = (RESET, WAIT, NOTHING, SAME, QUIT)
HELP = (
    "W A S D, space and the level's own keys play · R starts anew · C waits for keys · "
    "N does nothing, while waiting · X makes the model like the real game · Q ends · "
    "0-9: that action"
)
# What levels call the keys of this hand; the arrows themselves come as these.
_ARROWS = {UP: "up", LEFT: "left", DOWN: "down", RIGHT: "right"}
# For levels that do not say what their actions are: those without a key, then left and right …
_UNNAMED = {
    2: {"": 0, LEFT: 0, RIGHT: 1},
    3: {"": 1, LEFT: 0, RIGHT: 2, UP: 1, DOWN: 1},
    4: {"": 0, LEFT: 1, UP: 2, RIGHT: 3, DOWN: 0},
}


def played(spec: EnvironmentSpec) -> frozenset[str]:
    """The keys that play this level."""
    named = frozenset[str]().union(*spec.keys) - {*COMMANDS}
    return named | {*HELD, *"0123456789"}


def action_of(held: Collection[str], spec: EnvironmentSpec, count: int) -> int:
    """The action that the held keys stand for, or the nearest that the game has."""
    digits = [int(key) for key in held if key.isdigit() and int(key) < count]
    if digits:
        return digits[-1]
    if spec.action_meanings:
        return _by_meaning(held, spec.action_meanings)
    if spec.keys:
        return _by_keys({*held} | {_ARROWS[key] for key in held if key in _ARROWS}, spec.keys)
    known = _UNNAMED.get(count, {"": 0})
    return next((known[key] for key in HELD if key in held and key in known), known[""])


def _by_keys(held: set[str], keys: tuple[frozenset[str], ...]) -> int:
    """Of a level that names keys: the action of most keys, all of which are held."""
    fitting = [(len(own), -index) for index, own in enumerate(keys) if own <= held]
    return -max(fitting, default=(0, 0))[1]


def _by_meaning(held: Collection[str], meanings: tuple[str, ...]) -> int:
    """Of an Atari game: UP, RIGHT and FIRE make UPRIGHTFIRE; what it lacks is left out."""
    vertical = "UP" if UP in held else "DOWN" if DOWN in held else ""
    horizontal = "RIGHT" if RIGHT in held else "LEFT" if LEFT in held else ""
    fire = "FIRE" if FIRE in held else ""
    wishes = [
        vertical + horizontal + fire,
        horizontal + fire,
        vertical + fire,
        vertical + horizontal,
        fire,
        horizontal,
        vertical,
        "NOOP",
    ]
    return next((meanings.index(wish) for wish in wishes if wish in meanings), 0)
