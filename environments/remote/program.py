"""A program on a desktop as a world: its score is read from what it shows."""

import asyncio
import concurrent.futures
import io
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from environments import imports
from environments.realtime.game_file import GameFile
from environments.realtime.keys import in_order
from environments.realtime.rfb import RfbClient, apply, touches
from environments.remote.desktop import end, exit_code, with_this_process
from environments.remote.digits import Digits
from environments.remote.window import KeyEvent
from environments.remote.worlds import Frame, Pause
from environments.view import View
from user_error import EndedOutside, UserError

LOOKS_EVERY_S = 0.05
# From the end of a program to the end of its window, and of a game to the end of its score.
LEAVES_WITHIN_S = 1.0
KEPT = 4096  # bytes of what a program complains of
HOLDS_KEYS_S = 0.1
GAME_GETS_READY_S = 0.5
TRIES = 3  # of the keys that begin a game
OF_WAYLAND = ("WAYLAND_DISPLAY", "WAYLAND_SOCKET")
STOPPED = ("T", "t")  # by a signal, by a debugger


class ProgramWorld:
    """Watches its own desktop as every client does."""

    tells_keys = False
    made_with = View().made_with  # a file takes no others

    def __init__(self, name: str, game: GameFile, fps: float) -> None:
        self.name, self._game = name, game
        self.fps = fps or game.fps
        self.width, self.height, self.still_s = game.width, game.height, game.still_s
        self._read: Callable[[np.ndarray], float | None]
        if isinstance(game.score, str):
            self._read = self._own(game.score, "score", "the score of a picture")
        else:
            self._read = Digits(*game.score)
        self._is_over = (
            self._own(game.end, "end", "whether a picture is the end")
            if isinstance(game.end, str)
            else None
        )
        self._process: subprocess.Popen | None = None
        self._score, self._scored_at = 0.0, 0.0

    def _own(self, path: str, entry: str, returns: str) -> Callable[[np.ndarray], Any]:
        """The user's function. If it fails, the run ends with one line instead of a traceback."""
        function = imports.named(path, f"--game: {entry}", returns)

        def call(picture: np.ndarray) -> Any:
            try:
                return function(picture)
            except Exception as error:
                raise UserError(
                    f"--game: {self.name}: {entry}: {path} has failed ({imports.reason(error)})."
                ) from error

        return call

    def appear(self, host: str, port: int, secret: str) -> None:
        """Connects to the desktop, once there is one, and starts the program."""
        self._screen = Screen(host, port, secret, self.width, self.height)
        self._start()

    def reset(self, pause: Pause) -> Frame:
        """Presses the keys that begin a game, or starts the program again."""
        if self._scored_at and not self._has_begun_again(pause):
            self.close()
            self._wait_for(lambda score: score is None, pause)
            self._start()
        self._scored_at = 0.0
        until = time.monotonic() + self._game.starts_within_s
        while (score := self._begun(self._screen.picture())) is None:
            self._check_running()
            if time.monotonic() > until:
                raise UserError(
                    f"--game: {self.name} shows no score within "
                    f"{self._game.starts_within_s:g} s; see starts_within_s, score and end in "
                    "the file, and look at the desktop with vncviewer."
                )
            pause(LOOKS_EVERY_S)
        self._score, self._scored_at = score, time.monotonic()
        return Frame(None)

    def frame(self, keys: Sequence[KeyEvent]) -> Frame:
        # Before the picture, which may still show the last score of a program that has ended.
        gone = self._process is not None and exit_code(self._process) is not None
        picture = self._screen.picture()
        score, reward = self._seen(picture), 0.0
        if score is not None and score != self._score:
            reward, self._score, self._scored_at = score - self._score, score, time.monotonic()
        return Frame(None, reward, terminated=gone or self._over(picture))

    def hear(self, keys: Sequence[KeyEvent]) -> None:
        pass  # its own window gets them

    def is_stopped(self) -> bool:
        return self._process is not None and _state(self._process.pid) in STOPPED

    def close(self) -> None:
        process, self._process = self._process, None
        if process:
            end(process)

    def _has_begun_again(self, pause: Pause) -> bool:
        """Presses the keys that begin a game; false for a program that does not react to them.

        Pressed again where nothing happens, or a game stays over: windows may miss keys.
        """
        for _ in range(TRIES if self._game.reset else 0):
            if self._process is None or exit_code(self._process) is not None or self.is_stopped():
                return False
            before = self._screen.changes
            for action in self._game.reset:
                keys = [*in_order(action.held), *action.tapped]
                self._screen.press(keys, action.click or action.drag)
                pause(GAME_GETS_READY_S)
            if self._screen.changes > before and self._has_left_its_end(pause):
                return True
        return False

    def _has_left_its_end(self, pause: Pause) -> bool:
        """Whether what is seen is no end any more, or soon.

        One without a new score is not seen: another score is waited for, or none, but for a while
        only, as the next game may begin with that of the last one.
        """
        if not self._is_over:
            self._wait_for(lambda score: score != self._score, pause)
            return True
        until = time.monotonic() + self._game.starts_within_s / TRIES
        while self._is_over(self._screen.picture()):
            if time.monotonic() > until:
                return False
            pause(LOOKS_EVERY_S)
        return True

    def _wait_for(self, is_new: Callable[[float | None], bool], pause: Pause) -> None:
        """Until the score that is seen is not the last one, which would be taken for the next."""
        until = time.monotonic() + LEAVES_WITHIN_S
        while time.monotonic() < until and not is_new(self._seen(self._screen.picture())):
            pause(LOOKS_EVERY_S)

    def _check_running(self) -> None:
        if self._process is None or (code := exit_code(self._process)) is None:
            return
        told = self._complaints.last_line()
        raise UserError(
            f"--game: {self.name}: its command ended with code {code} before there was a score"
            f"{f' ({told})' if told else ''}; start it by hand in the file's folder."
        )

    def _begun(self, picture: np.ndarray) -> float | None:
        """The score, unless that is still the one of a game that is over."""
        return None if self._over(picture) else self._seen(picture)

    def _seen(self, picture: np.ndarray) -> float | None:
        """The score in a picture; None where it shows none."""
        score = self._read(picture)
        if score is None:
            return None
        if isinstance(score, int | float | np.number) and math.isfinite(score):
            return float(score)  # differences of NumPy's small numbers wrap around
        raise UserError(
            f"--game: {self.name}: {self._game.score} has returned the score {score!r}; expected a "
            "number, or None where there is none."
        )

    def _over(self, picture: np.ndarray) -> bool:
        if self._is_over:
            return bool(self._is_over(picture))
        silence = time.monotonic() - self._scored_at
        return self._scored_at > 0 and silence > float(self._game.end)

    def _start(self) -> None:
        command = [sys.executable if word == "python" else word for word in self._game.command]
        try:
            self._process = subprocess.Popen(
                [*with_this_process("KILL"), *command],  # some programs ignore TERM
                cwd=self._game.folder,
                env=_on_desktop(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        except OSError as error:
            raise UserError(f"--game: {command[0]} cannot be started ({error.strerror}).") from None
        assert isinstance(self._process.stderr, io.BufferedReader)
        self._complaints = Complaints(self._process.stderr)


def _on_desktop(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that is to show its window there, not on the user's screen."""
    kept = {name: value for name, value in environment.items() if name not in OF_WAYLAND}
    return kept | {
        "XDG_SESSION_TYPE": "x11",
        "SDL_VIDEODRIVER": "x11",
        "SDL_VIDEO_WINDOW_POS": "0,0",
    }


class Complaints:
    """The end of what a program writes to its standard error, kept by a thread."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream, self._end = stream, b""
        self._thread = threading.Thread(target=self._keep, name="complaints", daemon=True)
        self._thread.start()

    def last_line(self) -> str:
        """The last line of a program that has ended, or nothing."""
        self._thread.join(1.0)
        lines = self._end.decode(errors="replace").split("\n")
        return next((one.strip() for one in reversed(lines) if one.strip()), "")

    def _keep(self) -> None:
        with self._stream:
            while data := self._stream.read1(KEPT):
                self._end = (self._end + data)[-KEPT:]


class Screen:
    """The desktop's newest picture, kept by a thread, and its keyboard."""

    def __init__(self, host: str, port: int, secret: str, width: int, height: int) -> None:
        """``width`` and ``height`` are those of the program; the stamp is below it."""
        self._width, self._height = width, height
        self.changes = 0  # of what the program shows
        self._lost = ""  # why there is no new picture any more
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()

        def run() -> None:
            try:
                self._loop.run_until_complete(self._watch(host, port, secret, ready))
            except Exception as error:
                if ready.done():
                    raise
                ready.set_exception(EndedOutside(f"the desktop cannot be seen ({error})."))

        threading.Thread(target=run, name="screen", daemon=True).start()
        ready.result()

    def picture(self) -> np.ndarray:
        """The newest picture, uint8 [height, width, 3]."""
        if self._lost:
            raise EndedOutside(
                f"the desktop cannot be seen any more ({self._lost}). A program that changes its "
                "resolution, as some do for the full screen, ends all connections: give it a "
                "window of the size of the desktop."
            )
        with self._lock:
            return self._picture[: self._height, : self._width].copy()

    def press(self, keys: Sequence[str], click: tuple[int, int] | None) -> None:
        """Presses keys for a moment, and clicks."""
        for down in (True, False):
            for key in keys:
                self._loop.call_soon_threadsafe(self._client.key, key, down)
            if click:
                self._loop.call_soon_threadsafe(self._client.pointer, *click, down)
            time.sleep(HOLDS_KEYS_S)

    async def _watch(
        self, host: str, port: int, secret: str, ready: "concurrent.futures.Future[None]"
    ) -> None:
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 22)
        self._client = RfbClient(reader, writer, packed=False)
        await self._client.greet(secret)
        self._picture = np.zeros([self._client.height, self._client.width, 3], np.uint8)
        # Keys go to the window below the pointer.
        self._client.pointer(self._client.width // 2, self._client.height // 2, False)
        ready.set_result(None)

        def draw(rectangles: list) -> None:
            with self._lock:
                apply(rectangles, self._picture)
                self.changes += touches(rectangles, self._height)

        try:
            await self._client.run(draw)
        except Exception as error:
            self._lost = str(error) or "it was closed"


def _state(pid: int) -> str:
    """The letter by which Linux names what a process does; nothing where there is none."""
    try:
        # Its name is in brackets and may have any signs in it.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""
