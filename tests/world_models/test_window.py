"""The player in a window, on a display without a screen."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

PLAY = """
import sys
from trainer.machine.quiet import import_tensorflow
import_tensorflow()
import pygame
from environments import spec
from tests.world_models.catch_model import small
from trainer import build
from world_models.player.session import Session
from world_models.player.sides import RealGame
from world_models.player.window import play_in_window

settings = small(envs_per_actor=1)
real = RealGame(lambda n: build.actor_environment(settings, 0, n), rendered=False)
session = Session(real, None, zoom=4, wait=True)
tick, pressed = session.tick, [pygame.K_a, pygame.K_UP, pygame.K_n, None, pygame.K_q]

def ticking():
    if not pressed:
        return
    key = pressed.pop(0)
    if key is None:
        pygame.image.save(pygame.display.get_surface(), sys.argv[1])
    else:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))
        pygame.event.post(pygame.event.Event(pygame.KEYUP, key=key))
    tick()

session.tick = ticking
play_in_window(session, 20)
print(session.real.steps, session.ended)
"""
DISPLAY = ":4177"


@pytest.mark.skipif(shutil.which("Xtigervnc") is None, reason="needs Xtigervnc")
def test_keys_play_in_a_window(tmp_path):
    screen = ["-geometry", "640x480", "-depth", "24", "-rfbport", "0", "-SecurityTypes", "None"]
    server = subprocess.Popen(
        ["Xtigervnc", DISPLAY, *screen, "-displayfd", "1", "-localhost", "yes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout and server.stdout.readline()  # it answers now
        done = subprocess.run(
            [sys.executable, "-c", PLAY, tmp_path / "window.png"],
            env=os.environ | {"DISPLAY": DISPLAY, "SDL_AUDIODRIVER": "dummy"},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    finally:
        server.kill()
        server.wait()
    assert done.stdout.splitlines()[-1:] == ["3 True"], done.stdout + done.stderr
    picture = cv2.imread(str(tmp_path / "window.png"))
    assert picture is not None and np.ptp(picture) > 100
