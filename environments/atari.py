"""Atari games through the vectorised emulator of ale-py, which preprocesses in C++ threads."""

import functools

import ale_py
import numpy as np
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.spaces import Box, Discrete

from environments.step import EnvironmentSpec, EnvironmentStep, Episode, VectorEnvironment
from environments.tally import Tally

FRAMES_PER_STEP = 4
FRAME_STACK = 4
MAX_FRAMES = 108_000
# A policy that waits forever instead of, say, serving the ball would never be reset.
MAX_STEPS_WITHOUT_REWARD = 1_000
NOOP_MAX = 30
FRAMES_PER_SECOND = 60


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


def atari_spec(
    level_name: str,
    rom: str,
    *,
    num_action_repeats: int,
    width: int,
    height: int,
    full_action_set: bool,
) -> EnvironmentSpec:
    """The specification of a game for its agent."""
    meanings = action_meanings(rom, full_action_set)
    return EnvironmentSpec(
        level_name=level_name,
        observation_space=Box(0, 255, (height, width, 1), np.uint8),
        action_space=Discrete(len(meanings)),
        frame_stack=FRAME_STACK,
        frames_per_step=FRAMES_PER_STEP * num_action_repeats,
        image=True,
        action_meanings=meanings,
    )


class AtariEnvironment(VectorEnvironment):
    """N copies of one game with the standard preprocessing, frames left unstacked.

    Besides the emulator's own, it has two ends of an episode: too many steps without
    reward, and, with `episodic_life`, a lost life, after which the game continues.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        rom: str,
        seeds: np.ndarray,
        *,
        level_index: int,
        sticky_actions: float,
        full_action_set: bool,
        episodic_life: bool,
        num_threads: int,
        render: bool = False,
        noop_max: int = NOOP_MAX,
        max_frames: int = MAX_FRAMES,
        max_steps_without_reward: int = MAX_STEPS_WITHOUT_REWARD,
    ) -> None:
        self.spec = spec
        self.num_envs = len(seeds)
        self.pictures_per_second = FRAMES_PER_SECOND / spec.frames_per_step
        height, width, _ = spec.observation_space.shape

        def emulators(height: int, width: int, grayscale: bool) -> AtariVectorEnv:
            return AtariVectorEnv(
                rom,
                self.num_envs,
                num_threads=num_threads,
                max_num_frames_per_episode=max_frames,
                repeat_action_probability=sticky_actions,
                full_action_space=full_action_set,
                img_height=height,
                img_width=width,
                grayscale=grayscale,
                stack_num=1,
                frameskip=spec.frames_per_step,
                noop_max=noop_max,
                # The emulator's own `episodic_life` starts a new game at a lost life.
                episodic_life=False,
                reward_clipping=False,
                use_fire_reset=True,
            )

        self._vector = emulators(height, width, grayscale=True)
        # The emulators keep the agent's grey images only. A second set with the same seeds and
        # actions plays the same games in colour.
        self._coloured = emulators(*screen_size(rom), grayscale=False) if render else None
        self._seeds = seeds
        self._episodic_life = episodic_life
        self._max_steps_without_reward = max_steps_without_reward
        meanings = spec.action_meanings or ()
        # As at a reset: the action that serves the next ball, in games with such a button.
        self._resume = meanings.index("FIRE") if "FIRE" in meanings else 0
        self._tally = Tally(self.num_envs, level_index)
        self._forget()

    def _forget(self) -> None:
        self._over = np.zeros(self.num_envs, bool)  # the last row ended the game
        self._cut = np.zeros(self.num_envs, bool)  # … because no reward came
        self._died = np.zeros(self.num_envs, bool)  # the last row ended a life, not the game
        self._lives = np.zeros(self.num_envs, np.int32)
        self._rewardless_steps = np.zeros(self.num_envs, np.int32)
        self._tally.drop()

    def reset(self) -> EnvironmentStep:
        observation, info = self._vector.reset(seed=self._seeds)
        if self._coloured:
            self._colours, _ = self._coloured.reset(seed=self._seeds)
        self._forget()
        self._lives = info["lives"]
        nothing = np.zeros(self.num_envs, bool)
        return self._row(observation, np.zeros(self.num_envs, np.float32), nothing, ~nothing)

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        actions = np.where(self._died, self._resume, actions).astype(np.int32)
        observation, reward, game_over, truncated, info = self._vector.step(actions)
        if self._coloured:
            self._colours = self._coloured.step(actions)[0]
        if self._cut.any():
            # The emulator does not know about this end: it has played on, which is undone here.
            options = {"reset_mask": self._cut}
            observation, info = self._vector.reset(options=options)
            if self._coloured:
                self._colours, _ = self._coloured.reset(options=options)
            played_on = self._cut
            reward = np.where(played_on, 0, reward)
            game_over, truncated = game_over & ~played_on, truncated & ~played_on

        restarted = self._over
        first = restarted | self._died
        self._tally.add(reward, ~first)
        lives = info["lives"]
        # Some games stay at no lives for a few frames before they are over.
        died = (lives < self._lives) & (lives > 0) & ~first & ~game_over & ~truncated
        self._died = died & self._episodic_life
        self._lives = lives

        self._rewardless_steps += ~first
        self._rewardless_steps[(reward != 0) | restarted] = 0
        ended = game_over | truncated
        self._cut = (self._rewardless_steps >= self._max_steps_without_reward) & ~ended
        self._over = ended | self._cut
        if self._over.any():
            self._tally.finish(self._over, info["episode_frame_number"])
        terminated = (game_over | self._died) & ~first
        return self._row(observation, np.where(first, 0, reward), terminated, first)

    def _row(
        self,
        observation: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        first: np.ndarray,
    ) -> EnvironmentStep:
        self._frames = observation.reshape(self.num_envs, *self.spec.observation_space.shape)
        return EnvironmentStep(self._frames, reward.astype(np.float32), terminated, first)

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def render(self, index: int) -> np.ndarray:
        """The screen in colour if requested, otherwise the agent's own grey image."""
        if self._coloured:
            return self._colours[index, 0]
        return np.repeat(self._frames[index], 3, axis=-1)

    def close(self) -> None:
        self._vector.close()
        if self._coloured:
            self._coloured.close()
