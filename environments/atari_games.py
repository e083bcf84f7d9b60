"""The games of the Arcade Learning Environment: their screens, actions and specifications."""

import functools

import ale_py
import numpy as np
from ale_py import roms
from gymnasium.spaces import Box, Discrete

from environments.step import EnvironmentSpec
from environments.view import View, refuse

FRAME_STACK = 4
NOT_PYTHON = "is for environments written in Python, which"


@functools.cache
def action_meanings(rom: str, full_action_set: bool) -> tuple[str, ...]:
    """The names of the game's actions, in the order of the agent's action numbers."""
    emulator = _emulator(rom)
    actions = emulator.getLegalActionSet() if full_action_set else emulator.getMinimalActionSet()
    return tuple(action.name for action in actions)


def screen_size(rom: str) -> tuple[int, int]:
    """Height and width of the game's screen."""
    height, width = _emulator(rom).getScreenDims()
    return height, width


def _emulator(rom: str) -> ale_py.ALEInterface:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    cartridge = roms.get_rom_path(rom)
    assert cartridge is not None, rom
    emulator.loadROM(cartridge)
    return emulator


def atari_spec(level_name: str, rom: str, view: View) -> EnvironmentSpec:
    """The specification of a game for its agent."""
    meanings = action_meanings(rom, view.full_action_set)
    refuse(view, ("env_kwargs", "wrappers", "action_masks"), f"{NOT_PYTHON} {level_name} is not.")
    view.crop_of(*screen_size(rom))
    return EnvironmentSpec(
        level_name=level_name,
        observation_space=Box(0, 255, (view.height, view.width, 3 if view.colour else 1), np.uint8),
        action_space=Discrete(len(meanings)),
        frame_stack=view.frame_stack or FRAME_STACK,
        frames_per_step=view.frame_skip * view.num_action_repeats,
        image=True,
        action_meanings=meanings,
    )
