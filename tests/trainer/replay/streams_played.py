"""Streams in which every row says which one it is, and a plain model of the replay store."""

from typing import NamedTuple

import numpy as np

from agents import AgentState
from agents.lstm import LSTMState
from algorithms.trajectory import EnvironmentStep, Episodes, Unroll

LIFE = 10_000  # more than the rows of a life: what an actor plays until it is restarted
STREAM = 100 * LIFE


def first_of(row):
    """Whether an episode starts at these rows: at the start of a life, and now and then."""
    row = np.asarray(row, np.int64)
    return (row % LIFE == 0) | (row * 7919 % 101 < 25)


class Played(NamedTuple):
    """One unroll."""

    stream: int
    number: int
    rows: list[int]


class Player:
    """One environment of an actor."""

    def __init__(self, stream: int, length: int):
        self._stream, self._length, self._life, self._number = stream, length, 0, 0

    def play(self) -> Played:
        """The next unroll."""
        start = self._stream * STREAM + self._life * LIFE + self._number * self._length
        self._number += 1
        rows = list(range(start, start + self._length + 1))
        return Played(self._stream, self._number - 1, rows)

    def lose(self) -> None:
        """Plays an unroll that does not arrive; the first of a life always does."""
        if self._number:
            self._number += 1

    def restart(self) -> None:
        """A new actor plays this stream from its start."""
        self._life, self._number = self._life + 1, 0


def block_of(unrolls: list[Played]) -> tuple[Unroll, np.ndarray, np.ndarray]:
    """The arguments of ``ReplayStore.add``."""
    rows = np.array([unroll.rows for unroll in unrolls], np.int32).T
    number = np.array([unroll.number for unroll in unrolls])
    stream = np.array([unroll.stream for unroll in unrolls])
    start = rows[0, :, None].astype(np.float32)
    count = len(unrolls)
    unroll = Unroll(
        **timed(rows),
        initial_state=AgentState(np.ones([count, 2, 3], np.float32), LSTMState(start, -start)),
        level=(stream % 3).astype(np.int32),
        stream=stream.astype(np.int32),
        number=number.astype(np.int32),
        weights_version=rows[0].astype(np.float32),
    )
    return unroll, stream, number


def timed(rows):
    """The fields of an unroll that have a value for each row."""
    floats = rows.astype(np.float32)
    return {
        "environment": EnvironmentStep(
            observation=np.stack([rows, -rows, rows % 5], axis=-1).astype(np.int32),
            reward=floats,
            terminated=rows % 3 == 0,
            first=first_of(rows),
        ),
        "action": (rows % 7).astype(np.int32),
        "recorded": {"log_prob": floats + 1, "epsilon": floats + 2},
        "episodes": Episodes(floats * 2, rows * 3),
    }


class Kept(NamedTuple):
    """A row in the model of a store."""

    row: int
    slot: int  # a number that no other slot has
    unroll: int  # row 0 of the unroll that brought it


class Expected(NamedTuple):
    """What a window must hold."""

    rows: list[int]
    first: list[bool]
    unroll: int


class Model:
    """Fragments of streams as lists, oldest row first; slots are only counted."""

    def __init__(self, slots, length, window, *, before, aligned=False, state_row=0):
        self._slots, self._length, self._window = slots, length, window
        self._before, self._aligned, self._state_row = before, aligned, state_row
        self._fragments: list[list[Kept]] = []
        self._newest: dict[int, tuple[int, int, list[Kept]]] = {}
        self._filled = 0

    def add(self, unrolls: list[Played]) -> None:
        """Adds a block in which every stream is once."""
        oldest = self._filled + 2 * len(unrolls) - self._slots
        for unroll in unrolls:
            number, slot, _ = self._newest.get(unroll.stream, (-1, -1, []))
            if number != unroll.number - 1 or slot < max(0, oldest):
                fragment = [Kept(unroll.rows[0], self._filled, unroll.rows[0])]
                self._fragments.append(fragment)
                self._newest[unroll.stream] = (unroll.number - 1, self._filled, fragment)
                self._filled += 1
        for unroll in unrolls:
            fragment = self._newest[unroll.stream][2]
            fragment += [Kept(row, self._filled, unroll.rows[0]) for row in unroll.rows[1:]]
            self._newest[unroll.stream] = (unroll.number, self._filled, fragment)
            self._filled += 1
        for fragment in self._fragments:
            while fragment and fragment[0].slot < self._filled - self._slots:
                del fragment[0]
        self._fragments = [fragment for fragment in self._fragments if fragment]

    def windows(self) -> dict[int, Expected]:
        """All windows that can be drawn, by their main start."""
        found = {}
        for fragment in self._fragments:
            for main, unroll in self._main_starts(fragment):
                window = self._cut(fragment, main, unroll)
                if window:
                    found[fragment[main].row] = window
        return found

    def _main_starts(self, fragment):
        if not self._aligned:
            return [(place, kept.unroll) for place, kept in enumerate(fragment)]
        shift = self._before - self._state_row
        unrolls = {kept.unroll for kept in fragment if kept.row != kept.unroll}
        starts = {unroll: unroll - fragment[0].row + shift for unroll in unrolls}
        return [(place, unroll) for unroll, place in starts.items() if place >= 0]

    def _cut(self, fragment, main, unroll):
        if main + self._window >= len(fragment):
            return None
        if first_of(fragment[main].row + 1) and not self._aligned:
            return None
        earliest = main - self._before
        rows = [kept.row for kept in fragment[max(0, earliest) : main + self._window + 1]]
        first = first_of(rows).tolist()
        missing = max(0, -earliest)
        if missing:
            if not any(first[: main + 1]):
                return None
            first = [first[0]] * missing + [True, *first[1:]]
            rows = [rows[0]] * missing + rows
        return Expected(rows, first, unroll)


def rows_in(sample):
    """The rows of each window, after all that its fields say of them has been compared."""
    unrolls = sample.unrolls
    rows = unrolls.environment.observation[..., 0]
    expected = timed(rows)
    first = expected["environment"].first
    # A window may hold copies of a row that is missing; the row after them is `first`.
    copied = np.zeros_like(first)
    copied[1:] = rows[1:] == rows[:-1]
    last_copy = copied & ~np.roll(copied, -1, axis=0)
    environment = expected["environment"]._replace(first=first | last_copy)
    for got, want in (
        (unrolls.environment, environment),
        ((unrolls.action,), (expected["action"],)),
        (unrolls.episodes, expected["episodes"]),
        (unrolls.recorded.values(), expected["recorded"].values()),
    ):
        for one, other in zip(got, want, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert list(unrolls.recorded) == list(expected["recorded"])
    steps = np.diff(rows, axis=0)
    assert ((steps == 1) | copied[1:]).all()
    assert (np.diff(copied[1:].astype(int), axis=0) <= 0).all()  # copies come first
    return rows.T.tolist()
