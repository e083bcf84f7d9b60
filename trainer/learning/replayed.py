"""Batches that are drawn from a replay store, as many as the new agent steps allow."""

import collections
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from algorithms.feeding import IMPORTANCE, Replayed
from algorithms.trajectory import Unroll
from trainer.learning.batches import LOOK_EVERY_S, Batch, Batches, describe, steps_in, unrolls_in
from trainer.learning.rollouts import Rollouts
from trainer.learning.worker import GradientBatches
from trainer.machine.quota import free_memory
from trainer.replay.choice import importance_weights
from trainer.replay.store import ReplayStore, bytes_needed
from user_error import UserError

GIB = 2**30
# In a copy of the store: the agent steps that are left of it, those that no batch has counted yet,
# the updates that are due, and the level that was played.
WARM_UP, UNCOUNTED, DUE, LEVEL = "warm_up", "uncounted", "due", "level"
ROUNDS_IN_VAIN = 2  # of a replay, and of those who play for it, without a window


class Shape(NamedTuple):
    """The rows of a window: earlier frames, burn-in, then those that are learned from."""

    stacked: int  # rows that only rebuild stacked frames
    before: int  # those and burn-in
    length: int  # transitions from the first row that is learned from
    aligned: bool  # windows begin where unrolls do, for agents with an LSTM

    @property
    def rows(self) -> int:
        """All rows of a window."""
        return self.before + self.length + 1


def shape_of(feeding: Replayed, frame_stack: int, unroll_length: int, recurrent: bool) -> Shape:
    """The windows of an agent: one transition, or for an LSTM as many as an unroll has.

    After a burn-in these reach into the next unroll, so that each transition is in a window.
    """
    stacked, burn_in = frame_stack - 1, feeding.burn_in
    if burn_in and not recurrent:
        raise UserError(
            f"--burn_in={burn_in}: the agent has no LSTM whose state could be brought up to date. "
            "Leave it out, or choose an --agent_name with an LSTM."
        )
    if burn_in >= unroll_length:
        raise UserError(
            f"--burn_in={burn_in}: expected fewer rows than --unroll_length={unroll_length}."
        )
    learned = unroll_length if recurrent else 1
    return Shape(stacked, stacked + burn_in, learned + feeding.ahead - 1, recurrent)


def most_environments(steps: int, shape: Shape, unroll_length: int) -> int:
    """The environments of an actor elsewhere, whose windows a replay of ``steps`` has room for."""
    return steps // (unroll_length * least_slots(shape, unroll_length, 1, 1))


def least_slots(shape: Shape, unroll_length: int, streams: int, block: int) -> int:
    """The slots of a replay, of an unroll each, in which every stream comes to have whole windows.

    ``block`` is the number of streams whose unrolls arrive together, one block after another.
    """
    # A window's last row, counted from row 0 of its unroll where it begins with one.
    last = shape.before + shape.length - (shape.stacked if shape.aligned else 0)
    if last <= unroll_length and not (shape.aligned and shape.stacked):
        # An unroll that continues nothing takes a second slot, for the row before it.
        return 2 * block
    if shape.aligned:  # row 0 and stacked frames before it are in earlier slots
        of_window = math.ceil(last / unroll_length) + 1 + shape.stacked // unroll_length
    else:
        of_window = math.ceil(shape.rows / unroll_length)
    # At first no stream continues, so two slots of each are filled until its next unroll comes.
    return block + streams * max(2, of_window - 1)


def check_room(steps: int, shape: Shape, unroll_length: int, streams: int, block: int) -> None:
    """Refuses a replay in which some of the ``streams`` would never have a whole window.

    ``block`` is the number of streams whose unrolls arrive together.
    """
    least = unroll_length * least_slots(shape, unroll_length, streams, block)
    if steps < least:
        raise UserError(
            f"--replay_steps={steps}: expected {least} or more for {streams} environments with "
            f"--unroll_length={unroll_length} and windows of {shape.rows} rows."
        )


class ReplayedBatches:
    """Keeps what arrives, and draws batches for ``updates_per_step`` updates a new agent step.

    A batch has the windows of ``together`` updates, one after the other.
    """

    def __init__(
        self,
        feeding: Replayed,
        size: int,
        shape: Shape,
        example: Unroll,
        seed: int,
        say: Callable[[str], None],
        together: int = 1,
        stores: int = 1,
    ):
        """``stores`` is the number of replays that share this machine's memory."""
        prioritized = feeding.priority_exponent is not None
        needed = bytes_needed(
            example, feeding.capacity, aligned=shape.aligned, prioritized=prioritized
        )
        check_memory("replay_steps", feeding.capacity, needed, stores)
        say(f"replay of {feeding.capacity:,} agent steps: up to {needed / GIB:.2f} GiB of memory")
        self._store = ReplayStore(
            example,
            feeding.capacity,
            before=shape.before,
            length=shape.length,
            aligned=shape.aligned,
            state_row=shape.stacked,
            priority_exponent=feeding.priority_exponent,
            seed=seed,
        )
        self._feeding = feeding
        self._shape = shape
        self._size = size * together
        self._together = together
        self._warm_up = feeding.warm_up
        self._due = 0.0  # updates that the steps so far allow
        self._steps = 0  # since the last batch
        self._in_vain = collections.Counter[int]()  # steps of each stream while there is no window
        self._indices: dict[int, np.ndarray] = {}  # of batches on their way, by their numbers
        self._drawn = 0
        self._lock = threading.Lock()

    def next(self, take: Callable[[], Unroll | None]) -> Batch | None:
        """The next batch; None if ``take`` returns None, or after a while of filling the store."""
        until = time.monotonic() + LOOK_EVERY_S
        while self._must_fill:
            block = take()
            if block is None:
                return None
            self._add(block)
            if time.monotonic() > until and self._must_fill:
                return None
        with self._lock:
            return self._draw()

    @property
    def _must_fill(self) -> bool:
        """Whether no batch may be drawn yet, or none can be."""
        return self._due < self._together or not self._store.windows

    def learned(self, number: int, errors: np.ndarray) -> None:
        """Takes the errors [L, B] of a batch that was learned from, as new priorities."""
        with self._lock:
            indices = self._indices.pop(number, None)  # synthetic batches have none
            if indices is not None and self._feeding.priority_exponent is not None:
                self._store.update_priorities(indices, errors.max(axis=0))

    def recall(self, block: Unroll) -> int:
        """Keeps what was played before this run; returns its steps, which shorten the warm-up."""
        steps = int(np.count_nonzero(~block.environment.first[1:]))
        environments, length = unrolls_in(block), len(block.action) - 1
        check_room(self._feeding.capacity, self._shape, length, environments, environments)
        with self._lock:
            self._store.add(block, block.stream, block.number)
        self._warm_up = max(0, self._warm_up - steps)
        return steps

    @property
    def filled(self) -> int:
        """Grows with what was played for the store, by earlier processes, too."""
        return self._store.filled

    def save(self, folder: Path, level_name: str = "") -> None:
        """Brings the copy on disk up to date, of play of this level; may raise OSError."""
        with self._lock:
            notes = {
                WARM_UP: self._warm_up,
                UNCOUNTED: self._steps,
                DUE: self._due,
                LEVEL: level_name,
            }
            self._store.save(folder, {name: np.array(value) for name, value in notes.items()})

    def load(self, folder: Path, *, has_learned: bool, level_name: str = "") -> int:
        """Continues with what was saved; returns the agent steps that its warm-up goes on for.

        It may be play of this level only, or of an earlier version, which does not say of which.
        Where a save was interrupted, those that were lost with it are played again if the rest is
        too little to begin with. ``has_learned`` is for copies of earlier versions, which do not
        say how many are left.
        """

        def check(notes: dict[str, np.ndarray]) -> None:
            played = str(notes.get(LEVEL, level_name))
            if played != level_name:
                raise UserError(f"{folder} is the copy of a replay of another level, {played}.")

        saved = self._store.load(folder, check)
        self._steps, self._due = int(saved.get(UNCOUNTED, 0)), float(saved.get(DUE, 0.0))
        if WARM_UP in saved:
            left = int(saved[WARM_UP])
        else:
            left = 0 if has_learned else max(0, self._warm_up - self._store.steps)
        missing = self._feeding.warm_up - self._store.steps
        if self._store.lost and missing > left:
            left, self._due = missing, 0.0  # what was due was so by steps that are gone
        self._warm_up = min(self._warm_up, left)
        return self._warm_up

    def _add(self, block: Unroll) -> None:
        steps = steps_in(block)
        with self._lock:
            self._store.add(block, block.stream, block.number)
            self._steps += steps
            new = max(0, steps - self._warm_up)
            self._warm_up = max(0, self._warm_up - steps)
            if self._store.windows:
                self._due += new * self._feeding.updates_per_step
                self._in_vain.clear()
            else:
                self._check_use(block)

    def _check_use(self, block: Unroll) -> None:
        """Refuses to go on filling a replay in which no window becomes whole.

        How many actors elsewhere there are, and how evenly they play, turns out only now.
        """
        played = np.count_nonzero(~block.environment.first[1:], axis=0)
        for stream, steps in zip(block.stream.tolist(), played.tolist(), strict=True):
            self._in_vain[stream] += steps
        length, streams = len(block.action) - 1, len(self._in_vain)
        total, capacity = self._in_vain.total(), self._feeding.capacity
        everybody_came = max(self._in_vain.values()) > ROUNDS_IN_VAIN * length
        if total <= ROUNDS_IN_VAIN * capacity or not everybody_came:
            return
        least = length * least_slots(self._shape, length, streams, unrolls_in(block))
        raise UserError(
            f"--replay_steps={capacity}: no window of {self._shape.rows} rows was whole after "
            f"{total:,} agent steps of {streams} environments; expected "
            f"{max(least, ROUNDS_IN_VAIN * capacity)} or more for so many. Give that, or fewer "
            "actors."
        )

    def _draw(self) -> Batch:
        self._due -= self._together
        sample = self._store.sample(self._size)
        weights = importance_weights(
            sample.probabilities, self._store.windows, self._feeding.importance_exponent
        )
        rows = len(sample.unrolls.action)
        importance = np.broadcast_to(weights.astype(np.float32), [rows, self._size])
        unrolls = sample.unrolls._replace(
            recorded=sample.unrolls.recorded | {IMPORTANCE: importance}
        )
        steps, self._steps = self._steps, 0
        self._drawn += 1
        self._indices[self._drawn] = sample.indices
        return describe(unrolls, self._size)._replace(steps=steps, number=self._drawn)


Feeder = Batches | Rollouts | ReplayedBatches | GradientBatches  # what makes a learner's batches


def check_memory(flag: str, capacity: int, needed: int, stores: int) -> None:
    """Refuses stores that this machine, or this process's container, has no room for.

    ``flag`` gives the ``capacity``, for which so many bytes are ``needed``.
    """
    free = free_memory() / stores  # memory is taken only as a store fills
    if needed > free:
        of_all = f" for each of {stores} replays" if stores > 1 else ""
        fit = int(capacity * free / needed)
        raise UserError(
            f"--{flag}={capacity}: the replay would take {needed / GIB:.1f} GiB of memory, but "
            f"{free / GIB:.1f} GiB are free{of_all}. At most {fit:,} fit; "
            "smaller pictures (--width, --height) take less."
        )
