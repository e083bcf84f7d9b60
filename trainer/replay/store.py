"""A replay store: the newest steps that actors played, and windows drawn from them."""

import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from algorithms.trajectory import EnvironmentStep, Unroll, same_rows
from trainer.replay.choice import Choice, Prioritized, Uniform
from trainer.replay.copy_on_disk import ReplayCopy
from trainer.replay.fields import layout, rows_of, slots_of, unroll_of
from trainer.replay.streams import NONE, Streams, WindowPlaces


class Sample(NamedTuple):
    """Windows that were drawn, side by side."""

    unrolls: Unroll  # [before + length + 1, count, ...]
    indices: np.ndarray  # int64 [count], for `update_priorities`
    probabilities: np.ndarray  # float64 [count], with which each was drawn


class ReplayStore:
    """The newest ``capacity`` agent steps, each observation once and without its earlier frames.

    A slot has the rows of one unroll after its row 0, which is the last row of the unroll before.
    Arrays have their whole size from the start, but the system hands out memory as it is filled:
    a process can start with a store for which there is no room. ``bytes_needed`` tells in advance.

    A window is ``before`` rows, then a main start and ``length`` rows after it. It can be drawn if
    its rows follow one another in one stream and, unless windows are aligned, the first transition
    after the main start is not a reset. Where an episode starts at the main start or before, rows
    before that episode may be missing: copies of the earliest row that is there stand for them, and
    that row is `first`.

    Calls from several threads need a lock around them.
    """

    def __init__(
        self,
        example: Unroll,
        capacity: int,
        *,
        before: int,
        length: int,
        aligned: bool = False,
        state_row: int = 0,
        priority_exponent: float | None = None,
        seed: int = 0,
    ):
        """Makes an empty store.

        Args:
            example: a block of the types and shapes to come, [T + 1, B, ...]; its numbers do not
                matter.
            capacity: agent steps, rounded up to whole unrolls.
            before: rows of a window before its main start: earlier frames, burn-in.
            length: transitions of a window from its main start on.
            aligned: windows begin only where unrolls do. Their ``initial_state`` has the LSTM's
                state from then; without it, all of ``initial_state`` is zeros.
            state_row: with ``aligned``, the row of a window that is the unroll's row 0. The stored
                state is the one before this row; earlier rows only rebuild stacked frames.
            priority_exponent: 0 or more draws by priority, None uniformly.
            seed: of the windows drawn.
        """
        of_rows, of_slots = layout(example, capacity, aligned)
        self._of_rows = {name: np.empty(*array) for name, array in of_rows.items()}
        self._of_slots = {name: np.empty(*array) for name, array in of_slots.items()}
        self._state = example.initial_state
        self._aligned = aligned
        slots, rows = self._of_rows["reward"].shape
        self._streams = Streams(slots, rows)
        self._places = WindowPlaces(self._streams, before, length, state_row if aligned else None)
        size = slots * self._places.per_slot
        self._choice: Choice = (
            Uniform(size) if priority_exponent is None else Prioritized(size, priority_exponent)
        )
        self._random = np.random.default_rng(seed)
        self._copy: ReplayCopy | None = None
        self.lost = 0  # unrolls that the copy it was loaded from lacks: a save was interrupted

    @property
    def windows(self) -> int:
        """The number of windows that can be drawn."""
        return self._choice.count

    @property
    def filled(self) -> int:
        """The slots filled so far, by those who saved what was loaded, too: it only grows."""
        return self._streams.filled

    @property
    def steps(self) -> int:
        """About how many agent steps the windows that can be drawn are of."""
        return self.windows * self._streams.rows // self._places.per_slot

    def add(self, block: Unroll, stream: np.ndarray, number: np.ndarray) -> None:
        """Adds a block's unrolls; they take the place of the oldest if the store is full.

        Args:
            block: [T + 1, B, ...].
            stream: int [B], which environment of the run each unroll is of.
            number: int [B], how many unrolls of its stream are before it. A stream may begin
                again, with number 0.
        """
        for columns in _without_repeats(stream):
            row = EnvironmentStep(*(array[0, columns] for array in block.environment))
            follows = functools.partial(self._follow, row)
            placed = self._streams.place(stream[columns], number[columns], follows)
            windows = self._windows_of(np.concatenate([placed.heads, placed.slots])).ravel()
            self._choice.exclude(windows[self._choice.has(windows)])
            for name, values in rows_of(block).items():
                array, rows = self._of_rows[name], values[:, columns].swapaxes(0, 1)
                array[placed.heads, -1] = rows[placed.beginning, 0]
                _fill(array, placed.slots, rows[:, 1:])
            for name, values in slots_of(block, self._aligned).items():
                array, each = self._of_slots[name], values[columns]
                array[placed.heads] = each[placed.beginning]
                array[placed.slots] = each
            self._refresh(self._places.affected(placed))

    def sample(self, count: int) -> Sample:
        """Draws ``count`` windows, with replacement."""
        if not self.windows:
            raise ValueError("no window can be drawn: the store holds too few steps.")
        windows, probabilities = self._choice.draw(self._random, count)
        slots, places = np.divmod(windows, self._places.per_slot)
        rows, missing = self._places.rows(slots, places)
        of_rows = {
            name: array.reshape(-1, *array.shape[2:])[rows] for name, array in self._of_rows.items()
        }
        cut = np.flatnonzero(missing)
        of_rows["first"][missing[cut], cut] = True
        # A reward of nan would say that what was before belongs to it.
        earliest = of_rows["reward"][missing[cut], cut]
        of_rows["reward"][missing[cut], cut] = np.where(np.isnan(earliest), 0.0, earliest)
        of_slots = {name: array[slots] for name, array in self._of_slots.items()}
        indices = self._streams.sequence[slots] * self._places.per_slot + places
        unrolls = unroll_of(of_rows, of_slots, self._state)
        return Sample(unrolls, indices, probabilities)

    def update_priorities(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Gives windows new priorities, of 0 or more.

        Windows that were overwritten since they were drawn are ignored, and so are priorities
        that are not finite.
        """
        sequence, places = np.divmod(indices, self._places.per_slot)
        slots = sequence % len(self._streams.sequence)
        windows = slots * self._places.per_slot + places
        current = (self._streams.sequence[slots] == sequence) & self._choice.has(windows)
        current &= np.isfinite(priorities)
        self._choice.update(windows[current], priorities[current])

    def save(self, folder: Path, notes: dict[str, np.ndarray] | None = None) -> None:
        """Brings the copy in ``folder`` up to date, with ``notes`` by names of their own.

        Only what came since the last save is written, if that was to this folder, too, or if the
        store was loaded from it. Otherwise the copy that is there is replaced. May raise OSError.
        """
        if self._copy is None or self._copy.folder != folder:
            self._copy = ReplayCopy(folder, {**self._of_rows, **self._of_slots})
        about = {**self._streams.saved(), **self._choice.saved(), **(notes or {})}
        self._copy.save(self._streams.sequence, about)

    def load(
        self, folder: Path, check: Callable[[dict[str, np.ndarray]], None] = lambda notes: None
    ) -> dict[str, np.ndarray]:
        """Fills an empty store from a copy; raises UserError if there is none that fits.

        Of a save that was interrupted, the unrolls that it was writing are missing. Returns the
        notes that were saved with it, among other things; ``check`` sees them first and may raise
        UserError, after which the store is still empty.
        """
        if self._streams.filled:
            raise ValueError("only an empty store can be loaded.")
        copy = ReplayCopy(folder, {**self._of_rows, **self._of_slots})
        sequence, about = copy.load(check)
        self._streams.restore(about, sequence)
        complete = np.flatnonzero(sequence != NONE)
        self.lost = min(self._streams.filled, len(sequence)) - len(complete)
        for some in np.array_split(complete, len(complete) // 1024 + 1):
            self._refresh(some)
        windows = self._windows_of(complete).ravel()
        self._choice.restore(windows[self._choice.has(windows)], about)
        self._copy = copy
        return about

    def _follow(self, row: EnvironmentStep, slots: np.ndarray) -> np.ndarray:
        """[n]: whether these rows [n, ...] are the last ones of slots."""
        last = EnvironmentStep(
            *(self._of_rows[name][slots, -1] for name in EnvironmentStep._fields)
        )
        return same_rows(last, row)

    def _windows_of(self, slots: np.ndarray) -> np.ndarray:
        """[n, per_slot]: the numbers of the windows that are counted in these slots."""
        return slots[:, None] * self._places.per_slot + np.arange(self._places.per_slot)

    def _refresh(self, slots: np.ndarray) -> None:
        """Includes and excludes the windows of these slots, as they are now."""
        windows = self._windows_of(slots)
        had = self._choice.has(windows)
        has = self._places.complete(slots, self._of_rows["first"])
        self._choice.exclude(windows[had & ~has])
        self._choice.include(windows[has & ~had])


def bytes_needed(
    example: Unroll, capacity: int, *, aligned: bool = False, prioritized: bool = False
) -> int:
    """The memory that a store of these arguments takes once it is full."""
    of_rows, of_slots = layout(example, capacity, aligned)
    arrays = [*of_rows.values(), *of_slots.values()]
    slots, rows = of_rows["reward"][0]
    windows = slots if aligned else slots * rows
    return (
        sum(math.prod(shape) * dtype.itemsize for shape, dtype in arrays)
        + Streams.bytes_needed(slots)
        + (Prioritized if prioritized else Uniform).bytes_needed(windows)
    )


def _without_repeats(stream: np.ndarray) -> Iterator[Any]:
    """Columns of a block in groups in which no stream is twice, in their order."""
    if len(np.unique(stream)) == len(stream):
        yield slice(None)  # nothing needs to be copied
        return
    left = np.arange(len(stream))
    while len(left):
        group = np.sort(np.unique(stream[left], return_index=True)[1])
        yield left[group]
        left = np.delete(left, group)


def _fill(array: np.ndarray, slots: np.ndarray, values: np.ndarray) -> None:
    """Sets slots that follow one another in the ring; by ranges, which is the quickest way."""
    before_end = min(len(slots), len(array) - int(slots[0]))
    array[slots[0] : slots[0] + before_end] = values[:before_end]
    array[: len(slots) - before_end] = values[before_end:]
