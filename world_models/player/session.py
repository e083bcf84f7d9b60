"""A game by hand: keys in, pictures out, step by step; whatever shows it."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from environments import Episode
from world_models.player import keys
from world_models.player.recording import Recording
from world_models.player.sides import DreamedGame, RealGame
from world_models.training import pictures
from world_models.training.world_model import action_count


class Session:
    """The real game, and the model beside it if there is one. Any thread may call it."""

    def __init__(
        self,
        real: RealGame,
        model: DreamedGame | None,
        zoom: int,
        wait: bool = False,
        recording: Recording | None = None,
    ):
        self.real, self.model = real, model
        self._recording = recording
        self.ended = False
        self.error: Exception | None = None  # that has ended it, see ``fail``
        self.number = 0  # of the newest picture
        self._zoom, self._waits = zoom, wait
        self._actions = action_count(real.spec)
        self._held: list[str] = []
        self._keys = keys.played(real.spec)
        self._changed = threading.Condition(threading.RLock())
        with self._changed:
            self._began()

    def press(self, key: str) -> None:
        """A key went down."""
        with self._changed:
            if key in self._keys:
                if key not in self._held:
                    self._held.append(key)
                if self._waits:
                    self._step()
            elif key == keys.NOTHING and self._waits:
                self._step(nothing=True)
            elif key == keys.WAIT:
                self._waits = not self._waits and not self.real.spec.goes_on
            elif key == keys.RESET:
                self.real.reset()
                self._began()
            elif key == keys.SAME:
                self._same()
            elif key == keys.QUIT:
                self.ended = True
            self._draw()

    def release(self, key: str) -> None:
        """A key went up."""
        with self._changed:
            self._held = [one for one in self._held if one != key]

    def fail(self, error: Exception) -> None:
        """Ends the game for what went wrong in another thread than the one that waits for its end.

        That one is to raise it.
        """
        with self._changed:
            self.error, self.ended = self.error or error, True
            self._changed.notify_all()

    def tick(self) -> None:
        """The time of a step has passed."""
        with self._changed:
            if not self._waits:
                self._step()
                self._draw()

    def shown(self, after: int, wait_s: float) -> tuple[int, np.ndarray, dict[str, Any]]:
        """The newest picture, once it is another than ``after``, and what is written above."""
        with self._changed:
            self._changed.wait_for(lambda: self.number > after or self.ended, wait_s)
            return self.number, self._picture, self.header()

    def header(self) -> dict[str, Any]:
        """What there is to say of both games."""
        sides = {"real": self.real} | ({"model": self.model} if self.model else {})
        return {
            "waits": self._waits,
            "ended": self.ended,
            "action": self._action,
            **{
                name: {
                    "sum": side.total,
                    "reward": side.reward,
                    "step": side.steps,
                    "over": side.over,
                }
                for name, side in sides.items()
            },
        }

    def _began(self) -> None:
        """A real game has just started."""
        self._action = 0
        self._seen = [self.real.row.observation[0]]
        self._record(None)
        self._same()
        self._draw()

    def _same(self) -> None:
        if self.model:
            self.model.become(self._seen)

    def _step(self, nothing: bool = False) -> None:
        held = [] if nothing else self._held
        self._action = keys.action_of(held, self.real.spec, self._actions)
        row = self.real.step(self._action)
        self._record(self.real.ended)
        if row.first[0]:
            self._seen = [row.observation[0]]
            self._same()
            return
        self._seen = [*self._seen[-63:], row.observation[0]]
        if self.model:
            self.model.step(self._action)

    def _draw(self) -> None:
        self.number += 1
        self._picture = self._drawn()
        if self._recording:
            self._recording.show(self._picture)
        self._changed.notify_all()

    def _record(self, ended: Sequence[Episode] | None) -> None:
        if self._recording:
            self._recording.add(self.real.row, self._action, ended)

    def _drawn(self) -> np.ndarray:
        if self.model:
            return pictures.columns(self.model.picture, self.real.picture, self._zoom)
        picture = pictures.coloured(self.real.picture)
        zoom = self._zoom or max(1, -(-3 * pictures.SMALLEST // picture.shape[1]))
        return np.kron(picture, np.ones([zoom, zoom, 1], np.uint8))
