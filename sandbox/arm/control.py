"""Moves an arm by keys, from a terminal or from a file of keys."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TextIO

from sandbox.arm.drivers import Arm, SimulatedArm
from user_error import UserError

# Each key's motor and way, as OWI's own program has them.
KEYS = {
    "a": ("grip", 1), "z": ("grip", -1), "s": ("wrist", 1), "x": ("wrist", -1),
    "d": ("elbow", 1), "c": ("elbow", -1), "f": ("shoulder", 1), "v": ("shoulder", -1),
    "g": ("base", 1), "b": ("base", -1),
}  # fmt: skip
LAMP = {"q": True, "w": False}
END = "\x1b\x03\x04"  # Escape, Ctrl-C, Ctrl-D
SECONDS = 0.15  # that a motor runs for a key
HELP = "a/z grip  s/x wrist  d/c elbow  f/v shoulder  g/b base  q/w lamp  Esc ends"


def control(arm: Arm, source: TextIO | None = sys.stdin) -> None:
    """Runs a motor for a moment for each key, until the keys end."""
    lamp = False
    try:
        if source is None:  # the program was started without one
            raise UserError("control: there is no standard input; expected a terminal, or keys.")
        for key in _keys(source):
            lamp = LAMP.get(key, lamp)
            motor, way = KEYS.get(key, ("", 0))
            arm.drive({motor: way} if motor else {}, lamp)
            arm.wait(SECONDS)
            arm.drive({}, lamp)
            if isinstance(arm, SimulatedArm):
                print(" ".join(f"{n} {d:.1f}°" for n, d in arm.degrees.items()), flush=True)
    finally:
        arm.close()


def _keys(source: TextIO) -> Iterator[str]:
    """Keys as they are pressed on a terminal, or the characters of anything else."""
    if not source.isatty():
        print(HELP, flush=True)
        try:
            keys = source.read()
        except UnicodeDecodeError:
            raise UserError("control: standard input is not text; expected keys.") from None
        yield from keys.strip()
        return
    import termios
    import tty

    before = termios.tcgetattr(source)
    try:
        tty.setcbreak(source, termios.TCSANOW)
        # A key that would stop or kill this program, while a motor runs, is one like others.
        mode = termios.tcgetattr(source)
        mode[3] &= ~termios.ISIG
        termios.tcsetattr(source, termios.TCSANOW, mode)
        print(HELP, flush=True)
        while (key := source.read(1)) and key not in END:
            yield key
    except KeyboardInterrupt:
        return
    finally:
        with contextlib.suppress(termios.error):  # the terminal may have been closed
            termios.tcsetattr(source, termios.TCSADRAIN, before)
