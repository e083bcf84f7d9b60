"""What a remote serves: a world that goes on frame by frame, whoever plays it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from environments.realtime import stamp
from environments.realtime.actions import Action
from environments.realtime.keys import MODIFIERS, POINTER
from environments.realtime.level_keys import (
    action_for,
    frames_per_second,
    keys_of,
    made,
    picture,
    takes_events,
)
from environments.remote.window import KeyEvent
from environments.view import View
from user_error import UserError

# Waits for some seconds; those who watch see meanwhile that the remote goes on.
Pause = Callable[[float], None]


class Frame(NamedTuple):
    """What happened in a frame."""

    picture: np.ndarray | None  # to show, uint8 [height, width, 3]; None: it is on the screen
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class World(Protocol):
    """A game; its methods are called from one thread."""

    name: str
    width: int  # of the picture
    height: int
    fps: float
    tells_keys: bool  # whether `frame` gets the keys, so that their way can be timed
    still_s: float  # that its picture may stay the same though keys are pressed; 0: any time

    @property
    def made_with(self) -> Mapping[str, str]:
        """See ``View``."""

    def reset(self, pause: Pause) -> Frame:
        """Begins an episode; one that takes a while waits for it with ``pause``."""

    def frame(self, keys: Sequence[KeyEvent]) -> Frame:
        """Goes on by a frame; ``keys`` came since the last one."""

    def hear(self, keys: Sequence[KeyEvent]) -> None:
        """Takes in keys that came while no frame is played."""

    def is_stopped(self) -> bool:
        """Whether it does not go on, although it has not ended."""

    def close(self) -> None:
        """Ends it."""


class HeldKeys:
    """Which keys count in a frame: those that are held, and those that were tapped since."""

    def __init__(self) -> None:
        self.held: set[str] = set()  # now

    def after(self, events: Sequence[KeyEvent]) -> frozenset[str]:
        """The keys of the frame after these events."""
        events = [event for event in events if event.key != POINTER]
        pressed = {event.key for event in events if event.down}
        for event in events:
            (self.held.add if event.down else self.held.discard)(event.key)
        return frozenset(self.held | pressed)


class LevelWorld:
    """A Gymnasium level, stepped at its frame rate with whatever keys are held."""

    tells_keys = True
    still_s = 0.0

    def __init__(self, level_name: str, view: View, fps: float, seed: int) -> None:
        """``fps`` 0 is the level's own."""
        self.name, self.made_with = level_name, view.made_with
        self._env = made(level_name, view)
        try:
            self.actions: tuple[Action, ...] = keys_of(self._env)
            self.fps = frames_per_second(self._env, level_name, fps)
            self._keys = HeldKeys()
            self._pressed = frozenset[str]()  # in the page, if it is one, since the last frame
            self._env.reset(seed=seed)
            self.height, self.width = picture(self._env, level_name).shape[:2]
        except BaseException:
            self._env.close()
            raise

    def reset(self, pause: Pause) -> Frame:
        self._env.reset()
        self._pressed = frozenset()
        return Frame(self._drawn())

    def frame(self, keys: Sequence[KeyEvent]) -> Frame:
        held = self._keys.after(keys)
        action: Any = int(getattr(self._env.action_space, "start", 0))
        action += action_for(held, self.actions)
        if takes_events(self._env):
            clicks = [event.place for event in keys if event.place]
            # To be pressed anew, a key that was tapped in the frame before is let go first.
            let_go = self._pressed - self._keys.held - {*MODIFIERS}
            again = [event.key for event in keys if event.down and event.key in let_go]
            self._pressed = held - {*again}
            action = Action(self._pressed, tuple(again), clicks[-1] if clicks else None)
        _, reward, terminated, truncated, _ = self._env.step(action)
        return Frame(self._drawn(), float(reward), bool(terminated), bool(truncated))

    def _drawn(self) -> np.ndarray:
        """The picture, which is to fill the desktop."""
        drawn = picture(self._env, self.name)
        height, width = drawn.shape[:2]
        if (height, width) != (self.height, self.width):
            raise UserError(
                f"--level_name: {self.name} draws pictures of {width} × {height} pixels, after one "
                f"of {self.width} × {self.height}; expected one size for all, as a desktop has one."
            )
        return drawn

    def hear(self, keys: Sequence[KeyEvent]) -> None:
        self._keys.after(keys)

    def is_stopped(self) -> bool:
        return False  # if it stops, this process does

    def close(self) -> None:
        self._env.close()


def desktop_size(world: World) -> tuple[int, int]:
    """The width and height of a desktop with a world's picture and a stamp below it."""
    return max(world.width, stamp.WIDTH), world.height + stamp.HEIGHT
