"""The folders in which Doom leaves its files; a stand-in for ViZDoom's environment, no game."""

import contextlib
import importlib
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from environments import extras, held_folders
from environments.view import View


class StandIn(gymnasium.Env):
    observation_space: Any = spaces.Dict({"screen": spaces.Box(0, 255, (120, 160, 1), np.uint8)})
    action_space: Any = spaces.Discrete(2)
    metadata = {"render_modes": [], "render_fps": 35}

    def __init__(self, **given: Any) -> None:
        self.script, self.frame_skip = Path(given["vizdoom_path"]), given["frame_skip"]
        if given.get("fails"):
            raise ValueError("no such map")


@pytest.fixture
def doom(tmp_path, monkeypatch):
    """The module, without what it needs to play."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    package: Any = types.ModuleType("vizdoom")
    package.__file__ = str(tmp_path / "vizdoom.py")
    package.gymnasium_wrapper = types.ModuleType("vizdoom.gymnasium_wrapper")
    monkeypatch.setitem(sys.modules, "vizdoom", package)
    monkeypatch.setitem(sys.modules, "vizdoom.gymnasium_wrapper", package.gymnasium_wrapper)
    monkeypatch.delitem(sys.modules, "environments.extras.doom", raising=False)
    gymnasium.register("VizdoomStandIn-v0", StandIn)
    yield importlib.import_module("environments.extras.doom")
    del gymnasium.registry["VizdoomStandIn-v0"], sys.modules["environments.extras.doom"]
    vars(extras).pop("doom")


def test_ctrl_c_does_not_reach_a_game_which_keeps_its_process(doom, tmp_path):
    game = tmp_path / "vizdoom"
    game.write_text('#!/bin/sh\necho "$$ $1"\nexec sleep 600\n')
    game.chmod(0o700)
    with (
        contextlib.closing(doom.make("VizdoomStandIn-v0", View(), render=False)) as env,
        subprocess.Popen([env.unwrapped.script, "-map"], stdout=subprocess.PIPE) as started,
    ):
        assert started.stdout
        told, group = started.stdout.readline(), os.getpgid(started.pid)
        started.kill()
    assert told == b"%d -map\n" % started.pid
    assert group == started.pid != os.getpgrp()


def test_a_folder_goes_with_its_game_or_with_the_next_one(doom, tmp_path):
    left = tmp_path / f"{doom.PREFIX}left"  # by a process that was killed
    left.mkdir()
    (left / held_folders.LOCK).touch()
    one = doom.make("VizdoomStandIn-v0", View(), render=False)
    assert not left.exists()
    other = doom.make("VizdoomStandIn-v0", View(), render=False)
    assert one.unwrapped.script.exists() and other.unwrapped.script.exists()
    for env in (one, other):
        env.close()
    with pytest.raises(ValueError, match="no such map"):
        doom.make("VizdoomStandIn-v0", View(env_kwargs="fails=true"), render=False)
    assert not list(tmp_path.iterdir())
