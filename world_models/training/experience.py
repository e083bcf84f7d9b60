"""Real play in memory, from which pieces are drawn: windows to learn from, starts of dreams."""

from collections.abc import Sequence

import numpy as np

from environments.dream import Starts
from trainer.storage.checkpoints import Checkpoint
from trainer.storage.played import Part
from world_models.networks.loss import Windows


class Experience:
    """Play in memory, each game's rows after one another, from which pieces are drawn."""

    def __init__(self, parts: Sequence[Part], frames: int):
        """``frames`` pictures are a stack."""
        self._frames = frames

        def rows(name: str) -> np.ndarray:
            each = (np.swapaxes(getattr(part, name), 0, 1) for part in parts)
            return np.concatenate([one.reshape(-1, *one.shape[2:]) for one in each])

        self.pictures, self.action = rows("frames"), rows("action")
        self.reward, self.terminated = rows("reward"), rows("terminated")
        first = rows("first")
        lengths = [part.first.shape[0] for part in parts for _ in range(part.first.shape[1])]
        begins = first.copy()  # of an episode, or of what is known of one
        begins[np.cumsum([0, *lengths[:-1]])] = True
        # For each row, where what is known of its episode starts.
        self._start = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
        stacked = (np.arange(len(begins)) - self._start >= frames - 1) | first[self._start]
        # A target follows a row whose stack is known.
        self.targets = np.flatnonzero(~begins & np.append(False, stacked[:-1]))
        # A reset that no step follows shows a game that did not run, or was not there.
        runs = ~first | np.append(~begins[1:], False)
        self.beginnings = np.flatnonzero(first & ~self.terminated & runs)
        self._within = np.flatnonzero(stacked & ~self.terminated & runs)

    def windows(self, targets: np.ndarray, length: int) -> Windows:
        """What leads to these rows, and what follows: ``length`` steps, the first to the row."""
        steps = targets[:, None] + np.arange(length)
        inside = steps < len(self._start)
        steps = np.where(inside, steps, targets[:, None])
        start = self._start[targets - 1][:, None]
        valid = inside & (self._start[steps] == start)
        before = np.maximum(targets[:, None] - self._frames + np.arange(self._frames), start)
        return Windows(
            self.pictures[np.concatenate([before, steps], axis=1)],
            self.action[steps],
            self.reward[steps],
            self.terminated[steps],
            valid.astype(np.float32),
        )

    def draw(self, count: int, length: int, random: np.random.Generator) -> Windows:
        """Pieces of which each step of real play is as likely to be the first as any other."""
        return self.windows(random.choice(self.targets, count), length)

    def starts(
        self, count: int, true_starts: float, random: np.random.Generator, depth: int = 0
    ) -> Starts:
        """Stacks to go on from, some of them of episodes' beginnings, of at least ``depth``."""
        rows = random.choice(self._within, count)
        if len(self.beginnings):
            begin = random.random(count) < true_starts
            rows = np.where(begin, random.choice(self.beginnings, count), rows)
        depth = max(depth, self._frames)
        return Starts(self.stacks(rows, depth), np.minimum(rows - self._start[rows], depth - 1))

    def stacks(self, rows: np.ndarray, depth: int = 0) -> np.ndarray:
        """The newest pictures at these rows [count, H, W, F C], oldest first.

        F are those that a model sees, or ``depth``; of an episode's start, the first repeats.
        """
        depth = depth or self._frames
        indices = rows[:, None] - depth + 1 + np.arange(depth)
        seen = self.pictures[np.maximum(indices, self._start[rows][:, None])]
        moved = np.moveaxis(seen, 1, -2)
        return moved.reshape(*moved.shape[:-2], -1)


class KeptStarts:
    """Starts of dreams that a model's file brings, in place of the real play that they are from."""

    def __init__(self, starts: Starts, begins: np.ndarray):
        """``begins`` bool [count]: where an episode did."""
        self._starts, self._begins = starts, begins

    @classmethod
    def drawn(cls, real: "Experience | KeptStarts", count: int, depth: int) -> "KeptStarts":
        """Some of real play, half of them of episodes' beginnings."""
        random = np.random.default_rng(0)
        within = real.starts(count - count // 2, 0.0, random, depth)
        begun = real.starts(count // 2, 1.0, random, depth)
        both = Starts(*(np.concatenate(pair) for pair in zip(within, begun, strict=True)))
        return cls(both, np.arange(count) >= len(within.earlier))

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "KeptStarts | None":
        """Those in a model's file; a run's own checkpoint has none."""
        kept = checkpoint.algorithm
        if "start_stacks" not in kept:
            return None
        return cls(Starts(kept["start_stacks"], kept["start_earlier"]), kept["start_begins"])

    def arrays(self) -> dict[str, np.ndarray]:
        """As a file has them."""
        return {
            "start_stacks": self._starts.stacks,
            "start_earlier": self._starts.earlier,
            "start_begins": self._begins,
        }

    def starts(
        self, count: int, true_starts: float, random: np.random.Generator, depth: int = 0
    ) -> Starts:
        """As those of ``Experience``; ``depth`` is that of the file."""
        begun = np.flatnonzero(self._begins)
        rows = random.choice(np.flatnonzero(~self._begins), count)
        if len(begun):
            rows = np.where(random.random(count) < true_starts, random.choice(begun, count), rows)
        return Starts(self._starts.stacks[rows], self._starts.earlier[rows])
