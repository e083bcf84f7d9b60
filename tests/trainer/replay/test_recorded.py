"""Recorded play becomes unrolls that hold each of its steps once."""

import numpy as np

from algorithms.trajectory import Unroll
from trainer import build
from trainer.replay.recorded import FIRST_STREAM, unrolls_of
from trainer.replay.store import ReplayStore
from trainer.settings.config import Settings
from trainer.storage.played import Part


def played(rows: int, start: int = 0) -> Part:
    """Play of one game whose pictures are numbered; every fifth row starts an episode."""
    number = np.arange(start, start + rows)
    frames = np.tile(number[:, None, None, None, None], (1, 1, 10, 10, 1)).astype(np.uint8)
    column = number[:, None]
    return Part(
        frames,
        (column % 3).astype(np.int32),
        column.astype(np.float32),
        column % 5 == 4,
        column % 5 == 0,
    )


def example() -> Unroll:
    settings = Settings(level_name="Catch-v0", width=10, height=10, unroll_length=4)
    spec = build.level_spec(settings)
    return build.unroll(settings, spec, build.acting_agent(settings, spec))


def test_each_step_is_in_one_unroll_and_the_last_one_is_filled_with_resets():
    blocks = list(unrolls_of([played(11), played(6, 10)], example()))
    assert [len(block.action) for block in blocks] == [5] * 5
    seen = [
        int(block.environment.observation[row, 0, 0, 0, 0])
        for block in blocks
        for row in range(1, 5)
        if not block.environment.first[row, 0]
    ]
    steps = [n for n in range(1, 11) if n % 5]
    assert seen == steps + [n for n in range(11, 16) if n % 5]
    assert blocks[0].stream.tolist() == [FIRST_STREAM]
    # The second part does not go on from the first one.
    assert [int(block.number[0]) for block in blocks] == [0, 1, 2, 4, 5]
    for mine, theirs in zip(blocks[0].environment, example().environment, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape


def test_a_store_draws_windows_of_them():
    store = ReplayStore(example(), 100, before=0, length=1)
    for block in unrolls_of([played(11)], example()):
        store.add(block, block.stream, block.number)
    sample = store.sample(200).unrolls
    pictures = sample.environment.observation[:, :, 0, 0, 0]
    steps = {tuple(pair) for pair in pictures.T.tolist()}
    assert steps == {(n - 1, n) for n in range(1, 11) if n % 5}
    assert np.array_equal(sample.environment.reward[1], pictures[1])
