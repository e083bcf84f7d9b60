"""Worlds that do not wait, as a batch: all of them are seen and acted on at the same ticks."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

import cv2
import numpy as np

from environments.realtime import measures
from environments.realtime.actions import Action
from environments.realtime.keeping import (
    ENDS_WITHIN_S,
    STARTS_WITHIN_S,
    TELLS_WITHIN_S,
    Keeper,
    Source,
)
from environments.realtime.link import Link
from environments.realtime.messages import now_ms
from environments.realtime.seat import Row, Seat, observation_lag
from environments.spaces import shown
from environments.step import EnvironmentSpec, EnvironmentStep, Episode, VectorEnvironment
from environments.tally import Tally
from environments.view import View
from user_error import UserError

# Once the first try of each has failed, its reason is printed.
ALL_THERE_WITHIN_S = STARTS_WITHIN_S + 2 * ENDS_WITHIN_S + TELLS_WITHIN_S + 3.0
LOOKS_EVERY_S = 0.02
# An agent that acts so much later than it should has not acted on what its row shows.
MOST_LATE_S = 0.1
RELEASED = Action()


class RealTimeEnvironment(VectorEnvironment):
    """N remotes, one a row. Rows without a game that is played are `first`."""

    def __init__(
        self,
        spec: EnvironmentSpec,
        actions: Sequence[Action],
        view: View,
        fps: float,
        sources: Sequence[Source],
        lag_ms: float,
        level_index: int,
        say: Callable[[str], None],
        maximum: bool = False,
    ) -> None:
        """Starts or reaches the remotes; `reset` waits for them. `fps` are those of the worlds.

        With `maximum`, agents see the brighter of the two newest pictures at each point, as they
        do of an Atari game that waits: its objects are small, and some are drawn every other frame.
        """
        self.spec, self.num_envs = spec, len(sources)
        self.pictures_per_second = fps / spec.frames_per_step
        self._period_s = spec.frames_per_step / fps
        self._actions, self._view, self._maximum = actions, view, maximum
        self._tally = Tally(self.num_envs, level_index, spec.frames_per_step)
        shape = spec.observation_space.shape
        self._observation = np.zeros([self.num_envs, *shape], np.uint8)
        self._pictures: list[np.ndarray | None] = [None] * self.num_envs
        self._playing = [False] * self.num_envs
        self._spoilt = np.zeros(self.num_envs, bool)
        self._measured = measures.Measured(self.num_envs)
        self._seats = [Seat(1000 * self._period_s) for _ in sources]
        keys = frozenset[str]().union(*(action.held for action in actions))
        self._keepers = [
            Keeper(
                f"environment {index} of {spec.level_name}",
                source,
                lag_ms,
                seat.offer,
                seat.given_up,
                say,
                keys,
            )
            for index, (source, seat) in enumerate(zip(sources, self._seats, strict=True))
        ]
        self._loop = asyncio.new_event_loop()
        self._kept = self._loop.create_task(self._keep_all())
        self._thread = threading.Thread(target=self._run, name="remotes", daemon=True)
        self._thread.start()

    def reset(self) -> EnvironmentStep:
        until = time.monotonic() + ALL_THERE_WITHIN_S
        while not all(seat.is_offered for seat in self._seats):
            self._check()
            if time.monotonic() > until:
                if any(seat.is_offered for seat in self._seats):
                    break
                raise UserError(
                    f"--level_name={self.spec.level_name}: no remote could be reached within "
                    f"{ALL_THERE_WITHIN_S:g} s; look at what is printed above."
                )
            time.sleep(LOOKS_EVERY_S)
        for seat in self._seats:
            seat.restart()
        self._tally.drop()
        self._due = time.monotonic()
        return self._tick(cut=True)

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        self._check()
        chosen = [
            self._actions[int(action)] if playing else RELEASED
            for action, playing in zip(actions, self._playing, strict=True)
        ]
        now = now_ms()
        links = [seat.link for seat in self._seats]
        self._loop.call_soon_threadsafe(_press, chosen, links, now)
        self._measured.acted(now)
        late = time.monotonic() - self._due
        if late < 0:
            time.sleep(-late)
        else:
            self._due += late
        return self._tick(cut=late > max(MOST_LATE_S, self._period_s))

    def _tick(self, cut: bool) -> EnvironmentStep:
        """The rows of now; with `cut` nothing that happened since the last ones is experience."""
        self._due += self._period_s
        now = now_ms()
        rows = [seat.row(now) for seat in self._seats]
        self._playing = [row.playing for row in rows]
        first = np.array([row.first or cut for row in rows])
        reward = np.array([row.reward for row in rows], np.float32)
        for index, row in enumerate(rows):
            self._show(index, row)
            if row.lost:
                self._tally.abandon(index)
        self._spoilt |= [row.spoilt for row in rows]
        self._tally.add(reward, ~first)
        self._tally.finish(np.array([row.over for row in rows]))
        terminated = np.array([row.terminated for row in rows]) & ~first
        self._measured.seen(
            now, rows, [seat.link for seat in self._seats], observation_lag, self._period_s
        )
        return EnvironmentStep(self._observation, np.where(first, 0, reward), terminated, first)

    def _show(self, index: int, row: Row) -> None:
        if row.picture is None:
            return
        self._pictures[index] = row.picture
        shape = self.spec.observation_space.shape
        picture = _coloured(row.picture, shape[-1])
        if self._maximum and row.snapshot and not row.first:
            picture = np.maximum(picture, _coloured(row.snapshot.before, shape[-1]))
        crop = self._view.crop_of(*picture.shape[:2])
        self._observation[index] = shown(picture, crop, shape)

    def cut(self, which: np.ndarray) -> None:
        for index in np.flatnonzero(which):
            self._seats[index].restart()
            self._playing[index] = False  # what was chosen for this game is not for the next one
        self._tally.abandon(which)

    def running(self) -> list[Episode]:
        return self._tally.running()

    def spoilt(self) -> np.ndarray:
        # What a game shows at an unroll's end cannot be taken back later.
        spoilt = self._spoilt | [seat.is_doubtful() for seat in self._seats]
        self._spoilt = np.zeros(self.num_envs, bool)
        return spoilt

    def figures(self) -> dict[str, np.ndarray]:
        return self._measured.figures()

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def render(self, index: int) -> np.ndarray | None:
        return self._pictures[index]

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._kept.cancel)
            self._thread.join()

    def _check(self) -> None:
        """Raises what a remote has been refused for."""
        for keeper in self._keepers:
            if keeper.error:
                raise keeper.error

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._kept)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.close()

    async def _keep_all(self) -> None:
        # All of them, also when one was refused or cancelled: each has something to end.
        await asyncio.gather(*(keeper.keep() for keeper in self._keepers), return_exceptions=True)


def _coloured(picture: np.ndarray, colours: int) -> np.ndarray:
    return cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) if colours == 1 else picture


def _press(actions: list[Action], links: list[Link | None], sent_at: float) -> None:
    for action, link in zip(actions, links, strict=True):
        if link:
            link.press(action, sent_at)
