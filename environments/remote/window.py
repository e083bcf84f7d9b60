"""A real window on a desktop: shows pictures and their stamps, and gets the keys."""

import os
import time
from typing import NamedTuple

import numpy as np

from environments.realtime import messages, stamp
from environments.realtime.keys import KEYSYMS, POINTER, PYGAME_NAMES

LOOKS_EVERY_S = 0.004  # for keys; pygame's own wait looks every millisecond, which costs more


class KeyEvent(NamedTuple):
    """A key that was pressed or released, or a click."""

    key: str
    down: bool
    at: float  # milliseconds, when the game got it
    place: tuple[int, int] | None = None  # of a click


class Window:
    """Covers the desktop, or only its lowest rows, where the stamp is."""

    def __init__(self, width: int, height: int, top: int = 0) -> None:
        """``top`` is the row of the desktop where it begins."""
        os.environ.update(SDL_VIDEODRIVER="x11", SDL_AUDIODRIVER="dummy")
        os.environ.update(SDL_VIDEO_WINDOW_POS=f"0,{top}", PYGAME_HIDE_SUPPORT_PROMPT="1")
        # Otherwise each picture goes through OpenGL, in software, which takes longer than the game.
        os.environ.update(SDL_FRAMEBUFFER_ACCELERATION="0")
        import pygame  # late: it looks at the variables, and only remotes have it

        self._pygame = pygame
        pygame.display.quit()  # a level that draws with pygame has opened it without the desktop
        pygame.display.init()
        self._screen = pygame.display.set_mode((width, height), pygame.NOFRAME)
        self._height = height

    def show(self, picture: np.ndarray | None) -> float:
        """Draws a picture uint8 [height, width, 3] and a stamp; returns its milliseconds."""
        pygame = self._pygame
        if picture is not None:
            size = (picture.shape[1], picture.shape[0])
            data = np.ascontiguousarray(picture)
            self._screen.blit(pygame.image.frombuffer(data, size, "RGB"), (0, 0))
        now = int(messages.now_ms())
        pixels = np.repeat(stamp.drawn(now)[:, :, None], 3, axis=2)
        strip = pygame.image.frombuffer(
            np.ascontiguousarray(pixels), (stamp.WIDTH, stamp.HEIGHT), "RGB"
        )
        self._screen.blit(strip, (0, self._height - stamp.HEIGHT))
        pygame.display.flip()
        return now

    def keys_until(self, moment: float) -> list[KeyEvent]:
        """Waits until a moment of ``time.monotonic``; returns the keys and clicks since."""
        pygame, found = self._pygame, []
        while True:
            left = moment - time.monotonic()
            event = pygame.event.poll()
            if event.type in (pygame.KEYDOWN, pygame.KEYUP):
                name = pygame.key.name(event.key)
                name = PYGAME_NAMES.get(name, name)
                if name in KEYSYMS:
                    found.append(KeyEvent(name, event.type == pygame.KEYDOWN, messages.now_ms()))
            elif event.type == pygame.MOUSEBUTTONDOWN:
                found.append(KeyEvent(POINTER, True, messages.now_ms(), event.pos))
            elif event.type == pygame.NOEVENT:
                if left <= 0:
                    return found
                time.sleep(min(left, LOOKS_EVERY_S))

    def close(self) -> None:
        """Closes the window."""
        self._pygame.display.quit()
