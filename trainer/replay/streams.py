"""Which slots of a replay store hold which unrolls, and the windows that lie in them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

NONE = -1  # no slot, or no unroll in a slot


class Placed(NamedTuple):
    """Where new unrolls of several streams go."""

    slots: np.ndarray  # one for each unroll, for its rows after row 0
    beginning: np.ndarray  # the columns of unrolls whose row 0 is not in an earlier slot
    heads: np.ndarray  # slots for the row 0 of those
    cut_off: np.ndarray  # slots of which the previous one was given away


class Streams:
    """Slots, filled in a ring, and the links between consecutive unrolls of a stream.

    Row 0 of an unroll is the last row in the slot of the unroll before. Where that is not there
    (a stream begins, an actor was restarted, an unroll was lost, the slot was overwritten), row 0
    becomes the last row of a slot of its own, its head, whose other rows are missing. Thus rows
    before any row are always found in the same way. A head wastes the rest of its slot, but
    streams begin rarely.
    """

    def __init__(self, slots: int, rows: int):
        """``rows`` is the number of rows in a slot."""
        self.rows = rows
        self.filled = 0  # slots filled so far; the next unroll is at this number, modulo the ring
        self.sequence = np.full([slots], NONE, np.int64)  # slots filled before it; an identity
        self.stream = np.zeros([slots], np.int64)
        self.number = np.zeros([slots], np.int64)
        self.head = np.zeros([slots], bool)  # only its last row is there
        self.previous = np.full([slots], NONE, np.int64)
        self.next = np.full([slots], NONE, np.int64)
        self._newest: dict[int, int] = {}  # the slot of each stream's newest unroll

    @staticmethod
    def bytes_needed(slots: int) -> int:
        """The memory for so many slots."""
        return slots * (5 * np.dtype(np.int64).itemsize + np.dtype(bool).itemsize)

    def place(
        self, stream: np.ndarray, number: np.ndarray, follows: Callable[[np.ndarray], np.ndarray]
    ) -> Placed:
        """Fills slots with one unroll of each of these streams; no stream may be there twice.

        ``follows`` says which of them have as row 0 the last row of a slot, given one for each.
        """
        count, size = len(stream), len(self.sequence)
        if 2 * count > size:
            raise ValueError(f"{count} unrolls need {2 * count} slots; there are {size}.")
        previous = np.array([self._newest.get(one, NONE) for one in stream.tolist()], np.int64)
        # What may be given away now is not continued: that depends on how many begin.
        oldest = max(0, self.filled + 2 * count - size)
        continues = (
            (previous != NONE)
            & (self.sequence[previous] >= oldest)
            & (self.stream[previous] == stream)
            & (self.number[previous] == number - 1)
        )
        continues &= follows(previous)  # another actor may use the same stream
        beginning = np.flatnonzero(~continues)
        taken, cut_off = self._take(len(beginning) + count)
        heads, slots = np.split(taken, [len(beginning)])
        previous[beginning] = heads
        self.stream[heads], self.number[heads] = stream[beginning], number[beginning] - 1
        self.stream[slots], self.number[slots] = stream, number
        self.head[heads], self.head[slots] = True, False
        self.previous[slots], self.next[previous] = previous, slots
        self._newest.update(zip(stream.tolist(), slots.tolist(), strict=True))
        return Placed(slots, beginning, heads, cut_off)

    def _take(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The slots that were filled longest ago, and those that follow them in their streams."""
        sequence = np.arange(self.filled, self.filled + count)
        slots = sequence % len(self.sequence)
        following = self.next[slots]
        following = following[following != NONE]
        # Slots before them need no care: they are older, so they were given away earlier.
        self.previous[following] = NONE
        self.previous[slots] = self.next[slots] = NONE
        self.sequence[slots] = sequence
        self.filled += count
        return slots, following

    def around(self, slots: np.ndarray, back: int, ahead: int) -> np.ndarray:
        """[n, back + 1 + ahead]: slots with those before and after them in their streams."""
        found = np.full([len(slots), back + 1 + ahead], NONE)
        found[:, back] = slots
        for column in range(back, 0, -1):
            found[:, column - 1] = _follow(self.previous, found[:, column])
        for column in range(back, back + ahead):
            found[:, column + 1] = _follow(self.next, found[:, column])
        return found

    def there(self, slots: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Whether these slots have these of their rows, counted from 0."""
        return (slots != NONE) & (~self.head[slots] | (rows == self.rows - 1))

    def saved(self) -> dict[str, np.ndarray]:
        """What a later process needs to go on, besides ``sequence``."""
        return {
            "stream": self.stream,
            "number": self.number,
            "head": self.head,
            "previous": self.previous,
            "next": self.next,
            "filled": np.array(self.filled),
        }

    def restore(self, saved: dict[str, np.ndarray], sequence: np.ndarray) -> None:
        """Takes over what was saved of the slots that ``sequence`` has; the others are empty.

        Streams do not continue: a stream of a later process may have the same number by chance.
        """
        self.filled = int(saved["filled"])
        self.sequence[:] = sequence
        for name in ("stream", "number", "head"):
            getattr(self, name)[:] = saved[name]
        for name in ("previous", "next"):
            link = saved[name]
            there = (sequence != NONE) & (link != NONE) & (sequence[link] != NONE)
            getattr(self, name)[:] = np.where(there, link, NONE)


class WindowPlaces:
    """Windows of ``before`` + ``length`` + 1 rows, by the slot in which they are counted."""

    def __init__(self, streams: Streams, before: int, length: int, state_row: int | None):
        """Lays out the windows of any slot.

        Args:
            streams: the slots.
            before: rows of a window before its main start.
            length: rows after it.
            state_row: None for a window with its main start at each row of a slot. Otherwise a
                slot has one window, which has the row 0 of the slot's unroll at this row.
        """
        # Main starts, counted from the slot's first row, which is the row 1 of its unroll.
        offsets = (
            np.arange(streams.rows) if state_row is None else np.array([before - state_row - 1])
        )
        self.per_slot = len(offsets)
        self._streams, self._before, self._length = streams, before, length
        self._aligned = state_row is not None
        # How many slots windows reach back and ahead.
        self.back = max(0, -((int(offsets.min()) - before) // streams.rows))
        self.ahead = max(0, (int(offsets.max()) + length) // streams.rows)
        # Main starts, and all rows, from the first row of the earliest slot on.
        self._starts = self.back * streams.rows + offsets
        self._positions = self._starts[:, None] + np.arange(-before, length + 1)

    def affected(self, placed: Placed) -> np.ndarray:
        """The slots of windows that may have come or gone."""
        new = np.concatenate([placed.heads, placed.slots])
        reaching_new = self._streams.around(new, self.ahead, 0).ravel()
        reaching_old = self._streams.around(placed.cut_off, 0, max(0, self.back - 1)).ravel()
        slots = np.unique(np.concatenate([reaching_new, reaching_old]))
        return slots[slots != NONE]

    def complete(self, slots: np.ndarray, first: np.ndarray) -> np.ndarray:
        """[n, per_slot] bool: which windows can be used.

        All rows from the main start on must be there. Unless others follow in the same window, as
        where unrolls begin, the first transition must be one, not a reset. Earlier rows may be
        missing where an episode starts after them, at the main start at the latest: an agent
        ignores what was before.

        Args:
            slots: [n].
            first: [slots, rows] bool of all slots.
        """
        line = self._streams.around(slots, self.back, self.ahead)
        there = self._streams.there(line[..., None], np.arange(self._streams.rows))
        # Of no slots, -1 could stand for any number of rows.
        flat = [len(slots), line.shape[1] * self._streams.rows]
        starts = np.reshape(first[line] & there, flat)
        there = there.reshape(flat)
        episodes = np.zeros([len(slots), starts.shape[1] + 1], np.int32)
        np.cumsum(starts, axis=1, out=episodes[:, 1:])
        main, earliest = self._starts, self._starts - self._before
        blanked = episodes[:, main + 1] > episodes[:, earliest]
        # A head is not the beginning of an unroll.
        counted = ~self._streams.head[slots] | (not self._aligned)
        # Rows that are there have no gap, so both ends stand for all between.
        return (
            counted[:, None]
            & there[:, main]
            & there[:, main + self._length]
            & (~starts[:, main + 1] | self._aligned)
            & (there[:, earliest] | blanked)
        )

    def rows(self, slots: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of some windows, given by slots [n] and their places among a slot's windows.

        Returns:
            rows: [before + length + 1, n], the number of each row, counted over all slots. The
                earliest that is there stands for those that are missing.
            missing: [n], how many are.
        """
        hops, offsets = np.divmod(self._positions[places], self._streams.rows)
        line = self._streams.around(slots, self.back, self.ahead)
        holders = np.take_along_axis(line, hops, axis=1)
        there = self._streams.there(holders, offsets)
        missing = there.argmax(axis=1)
        shown = np.maximum(np.arange(there.shape[1]), missing[:, None])
        rows = np.take_along_axis(holders * self._streams.rows + offsets, shown, axis=1)
        return rows.T, missing


def _follow(link: np.ndarray, slots: np.ndarray) -> np.ndarray:
    return np.where(slots == NONE, NONE, link[slots])
