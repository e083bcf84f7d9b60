"""The time at which a picture was drawn, as black and white pixels below it.

Whoever looks at the desktop knows from it how old the picture is, whatever lies between. The
lowest rows of a desktop are for it alone; agents do not see them.
"""

import numpy as np

HEIGHT = 2  # pixels, also of each bit's width
BITS, CHECK_BITS = 32, 8
WIDTH = HEIGHT * (BITS + CHECK_BITS)
PERIOD_MS = 1 << BITS  # 49 days
_WEIGHTS = 1 << np.arange(BITS + CHECK_BITS, dtype=np.uint64)
_PRIME = 251  # the remainder shows whether a stamp was read while it was drawn


def drawn(milliseconds: int) -> np.ndarray:
    """The stamp's pixels, uint8 [HEIGHT, WIDTH]."""
    moment = milliseconds % PERIOD_MS
    number = moment | _check(moment) << BITS
    bits = (np.uint64(number) & _WEIGHTS) > 0
    return np.kron(bits, np.ones([HEIGHT, HEIGHT], np.uint8)) * np.uint8(255)


def read(pixels: np.ndarray) -> int | None:
    """The milliseconds of a stamp [HEIGHT, WIDTH, ...]; None if there is none."""
    middle = pixels[HEIGHT // 2, HEIGHT // 2 : WIDTH : HEIGHT]
    if len(middle) < BITS + CHECK_BITS:
        return None
    bits = middle.reshape(len(middle), -1)[:, 0] > 127
    number = int(_WEIGHTS[bits].sum())
    moment, check = number & (PERIOD_MS - 1), number >> BITS
    return moment if _check(moment) == check else None


def _check(moment: int) -> int:
    return moment % _PRIME + 1  # never 0, so that a black strip is no stamp


def since(later: float, earlier: float) -> float:
    """Milliseconds between two moments less than 24 days apart, across the period's end."""
    return (later - earlier + PERIOD_MS / 2) % PERIOD_MS - PERIOD_MS / 2
