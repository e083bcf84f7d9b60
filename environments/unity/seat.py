"""Keeps one build of a batch playing: starts it again where it has ended or does not answer."""

from collections.abc import Callable

import numpy as np

from environments.unity.columns import Rows
from environments.unity.process import RESET, Launch, Lost, Process
from user_error import UserError

# Starts of a build without so many steps in between.
MOST_STARTS, STEPS_FORGIVE = 4, 1000


class Seat:
    """A build, or its successor that is on its way."""

    def __init__(
        self,
        name: str,
        level_name: str,
        launch: Launch,
        say: Callable[[str], None],
        started: Process | None = None,
    ) -> None:
        """Starts it unless it has `started`; `wait` until it plays."""
        self._name, self._level_name, self._launch, self._say = name, level_name, launch, say
        self.is_playing = self._has_played = started is not None
        self._asked = False  # whether rows are on their way
        self._is_new = True  # whether the build's first rows have not been asked for
        self._starts, self._steps = 1, 0
        self._process = started or self._first()

    def wait(self) -> None:
        """Waits until the build plays."""
        while not self.is_playing:
            self._begin()

    def reset(self) -> None:
        """Asks for first rows."""
        self._send(RESET)

    def step(self, actions: np.ndarray) -> None:
        """Takes actions; a build that has just begun shows its first rows instead."""
        if not self.is_playing and self._process.is_answering():
            self._begin()
        if self.is_playing:
            self._send(RESET if self._is_new else actions)

    def rows(self) -> Rows | None:
        """What has been asked for; None while there is no build."""
        if not self._asked:
            return None
        self._asked = False
        try:
            rows = self._process.rows()
        except Lost as error:
            self._start_again(error)
            return None
        self._steps += 1
        if self._steps == STEPS_FORGIVE:
            self._starts = 1
        return rows

    def close(self) -> None:
        """Ends the build."""
        self._process.close()

    def _send(self, command: str | np.ndarray) -> None:
        self._process.send(command)
        self._asked, self._is_new = True, False

    def _first(self) -> Process:
        """The first build; that it does not start is a mistake."""
        try:
            return Process(self._level_name, self._launch)
        except Lost as error:
            raise self._mistake(error) from None

    def _mistake(self, error: Lost) -> UserError:
        return UserError(f"--level_name: {self._name} {error}.")

    def _begin(self) -> None:
        try:
            self._process.level()
        except Lost as error:
            if not self._has_played:
                raise self._mistake(error) from None
            self._start_again(error)
        else:
            self.is_playing = self._has_played = True

    def _start_again(self, reason: Lost) -> None:
        self._process.kill()
        self.is_playing, self._is_new = False, True
        while self._starts < MOST_STARTS:
            self._say(f"{self._name} {reason}; it is started again.")
            self._steps, self._starts = 0, self._starts + 1
            try:
                self._process = Process(self._level_name, self._launch)
            except Lost as again:
                reason = again
            else:
                return
        raise Lost(f"{self._name} {reason}, after {MOST_STARTS} starts")
