"""The player in a window, where there is a display."""

import os
import time
from typing import Any

import numpy as np

from environments.realtime.keys import PYGAME_NAMES
from user_error import UserError
from world_models.player.session import Session

BAR = 30  # pixels above the pictures


def play_in_window(session: Session, fps: float) -> None:
    """Plays until the window is closed or Q is pressed."""
    pygame = _pygame()
    try:
        pygame.display.init()
        _, picture, _ = session.shown(-1, 0.0)
        size = (max(picture.shape[1], 360), picture.shape[0] + BAR)
        screen = pygame.display.set_mode(size)
    except pygame.error as error:
        raise UserError(f"no window can be opened ({error}). --browser serves a page.") from None
    pygame.font.init()
    font = pygame.font.Font(None, 22)
    pygame.display.set_caption("World model")
    due = time.monotonic()
    while not session.ended:
        for event in pygame.event.get():
            _take(pygame, session, event)
        if time.monotonic() >= due:
            due = max(due + 1 / fps, time.monotonic())
            session.tick()
        _, picture, header = session.shown(-1, 0.0)
        _draw(pygame, screen, font, picture, header)
        time.sleep(0.004)
    pygame.display.quit()


def _take(pygame: Any, session: Session, event: Any) -> None:
    names = {"up": "w", "left": "a", "down": "s", "right": "d"} | PYGAME_NAMES
    if event.type == pygame.QUIT:
        session.ended = True
    elif event.type in (pygame.KEYDOWN, pygame.KEYUP):
        key = pygame.key.name(event.key)
        (session.press if event.type == pygame.KEYDOWN else session.release)(names.get(key, key))


def _draw(pygame: Any, screen: Any, font: Any, picture: np.ndarray, header: dict[str, Any]) -> None:
    screen.fill((18, 20, 26))
    surface = pygame.surfarray.make_surface(picture.swapaxes(0, 1))
    screen.blit(surface, (0, BAR))
    words = [
        f"{side}: {header[side]['sum']:g} ({header[side]['reward']:+g}) "
        f"step {header[side]['step']}{' over' if header[side]['over'] else ''}"
        for side in ("model", "real")
        if side in header
    ]
    text = "   ".join([*words, "waits for keys" if header["waits"] else ""])
    screen.blit(font.render(text, True, (232, 234, 240)), (6, 8))
    pygame.display.flip()


def _pygame() -> Any:
    # With OpenGL it may crash: Mesa and TensorFlow each bring an LLVM.
    os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
    try:
        import pygame
    except ImportError:
        raise UserError("a window needs pygame-ce; --browser serves a page instead.") from None
    return pygame
