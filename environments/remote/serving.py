"""Plays a world in real time: frame after frame, episode after episode, whoever looks."""

import contextlib
import json
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from environments.realtime import messages
from environments.realtime.link import Address
from environments.realtime.messages import Message
from environments.remote.window import KeyEvent, Window
from environments.remote.worlds import Frame, World
from user_error import UserError

if TYPE_CHECKING:
    from environments.remote.rewarder import Rewarder  # few have what it needs

# After an episode's end its last picture stays until a client asks for the next one, or so long.
RESETS_ITSELF_AFTER_S = 1.0
DRAWS_EVERY_S = 0.05  # while the world waits


class Record:
    """What happened and when, one JSON object a line, if anybody wants to know."""

    def __init__(self, path: str) -> None:
        self._is_torn = False  # whether lines are missing, which has been said
        try:
            self._file = open(path, "a", buffering=1) if path else None  # noqa: SIM115
        except OSError as error:
            raise UserError(
                f"--record={path}: it cannot be written ({error.strerror}); expected a file in a "
                "folder that there is."
            ) from None

    def add(self, what: str, at: float, **more: Any) -> None:
        """Adds a line; ``at`` are milliseconds of this host's clock."""
        if not self._file:
            return
        try:
            self._file.write(json.dumps({"what": what, "at": at, **more}) + "\n")
        except OSError as error:
            if not self._is_torn:
                print(
                    f"remote: --record={self._file.name}: lines are missing from now on "
                    f"({error.strerror}).",
                    file=sys.stderr,
                )
            self._is_torn = True


class Stopped(Exception):
    """A game was stopped while its world was waiting."""


class Game:
    """The episodes of a world; ``run`` goes on until it is stopped."""

    def __init__(self, world: World, window: Window, record: Record, desktop: str) -> None:
        """``desktop`` is its name, by which clients know that it belongs to this game."""
        self._world, self._window, self._record = world, window, record
        self._desktop = desktop
        self._stopped = threading.Event()
        self._state = messages.RESETTING
        self._episode = ""
        self._at = 0.0  # when the last picture was drawn
        self._begun_at = 0.0  # when the episode's first one was
        self._return = 0.0

    def describe(self) -> Message:
        """What a new client has to know."""
        world = self._world
        body = {
            "env_id": world.name,
            "desktop": self._desktop,
            "env_state": self._state,
            "fps": world.fps,
            "picture": [world.width, world.height],
            "tells_keys": world.tells_keys,
            "still_s": world.still_s,
            **world.made_with,
            "at": self._begun_at if self._state == messages.RUNNING else self._at,
        }
        return Message(messages.DESCRIBE, body, self._episode)

    def stop(self) -> None:
        """Ends ``run`` after the frame, or while the world waits."""
        self._stopped.set()

    def run(self, rewarder: "Rewarder") -> None:
        """Plays; the next frame is due one period after the last one, whatever that took."""
        with contextlib.suppress(Stopped):
            self._play(rewarder)

    def _play(self, rewarder: "Rewarder") -> None:
        self._begin(rewarder)
        due, ended = time.monotonic(), 0.0
        while not self._stopped.is_set():
            due = max(due + 1.0 / self._world.fps, time.monotonic())
            keys = self._window.keys_until(due)
            self._tell_input(rewarder, keys)
            wanted = rewarder.reset_is_wanted(self._episode)
            if self._state != messages.RESETTING and not wanted:
                self._go_on(keys, rewarder)
                ended = time.monotonic()
                continue
            self._world.hear(keys)  # one that is released now is up in the next episode
            if wanted or time.monotonic() - ended > RESETS_ITSELF_AFTER_S:
                self._begin(rewarder)
            else:
                self._at = self._window.show(None)

    def _begin(self, rewarder: "Rewarder") -> None:
        self._change(messages.RESETTING, rewarder)
        frame = self._world.reset(self._pause)
        self._episode, self._return = uuid.uuid4().hex[:12], 0.0
        self._at = self._begun_at = self._window.show(frame.picture)
        self._record.add("begun", self._at, episode=self._episode)
        self._change(messages.RUNNING, rewarder)

    def _pause(self, seconds: float) -> None:
        """Waits, and draws the time meanwhile, by which clients know that this remote lives."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._stopped.is_set():
                raise Stopped
            self._at = self._window.show(None)
            # No wait for the event: a signal that sets it would wait for this thread.
            time.sleep(min(left, DRAWS_EVERY_S))

    def _go_on(self, keys: list[KeyEvent], rewarder: "Rewarder") -> None:
        """Plays a frame, unless the world stands still."""
        state = messages.FROZEN if self._world.is_stopped() else messages.RUNNING
        if state != self._state:
            self._change(state, rewarder)
        if state == messages.RUNNING:
            self._show(self._world.frame(keys), rewarder)
        else:
            self._at = self._window.show(None)

    def _show(self, frame: Frame, rewarder: "Rewarder") -> None:
        self._at = self._window.show(frame.picture)
        self._return += frame.reward
        self._record.add("drawn", self._at)
        over = frame.terminated or frame.truncated
        if frame.reward or over:
            info = {"truncated": frame.truncated and not frame.terminated}
            body = {"reward": frame.reward, "done": over, "at": self._at, "info": info}
            rewarder.tell(Message(messages.REWARD, body, self._episode))
        if over:
            self._record.add("over", self._at, episode=self._episode, raw_return=self._return)
            self._change(messages.RESETTING, rewarder)

    def _change(self, state: str, rewarder: "Rewarder") -> None:
        self._state = state
        rewarder.tell(self.describe())

    def _tell_input(self, rewarder: "Rewarder", keys: list[KeyEvent]) -> None:
        for key in keys:
            self._record.add("key", key.at, key=key.key, down=key.down)
        if keys:
            rewarder.tell(Message(messages.INPUT, {"keys": [list(key[:3]) for key in keys]}))


def announcement(address: Address, password_file: Path) -> str:
    """The line by which others find a remote; ``parse_announcement`` reads it."""
    return f"remote {address} password file {password_file}"
