"""Atari games through the vectorised emulator of ale-py, which preprocesses in C++ threads."""

import functools

import numpy as np
from ale_py.vector_env import AtariVectorEnv

from environments.atari_games import action_meanings, screen_size
from environments.rules import AtariRules
from environments.spaces import shown
from environments.step import EnvironmentSpec, EnvironmentStep, Episode, VectorEnvironment
from environments.tally import Tally
from environments.view import View

NOOP = 0
NO_LIMIT = 2**31 - 1
FRAMES_PER_SECOND = 60


def _emulators(
    rom: str,
    count: int,
    frames_per_step: int,
    view: View,
    rules: AtariRules,
    num_threads: int,
    size: tuple[int, int],
    colour: bool,
) -> AtariVectorEnv:
    """Games whose pictures have a size [height, width] and colours, or are grey."""
    return AtariVectorEnv(
        rom,
        count,
        num_threads=num_threads,
        max_num_frames_per_episode=rules.max_episode_frames or NO_LIMIT,
        repeat_action_probability=rules.sticky_actions or 0.0,
        full_action_space=view.full_action_set,
        img_height=size[0],
        img_width=size[1],
        grayscale=not colour,
        stack_num=1,
        frameskip=frames_per_step,
        # Of a single frame it would be the maximum with an old one.
        maxpool=frames_per_step > 1,
        noop_max=rules.noop_max,
        # The emulator's own `episodic_life` starts a new game at a lost life.
        episodic_life=False,
        reward_clipping=False,
        use_fire_reset=True,
    )


class AtariEnvironment(VectorEnvironment):
    """N copies of one game with the standard preprocessing, frames left unstacked.

    After a lost life the next ball is served: in games with a fire button, FIRE replaces the
    agent's action. Besides the emulator's own, an episode has two ends: too many steps without
    reward, and, with `episodic_life`, a lost life, after which the game continues.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        rom: str,
        seeds: np.ndarray,
        view: View,
        rules: AtariRules,
        *,
        level_index: int,
        num_threads: int,
        render: bool = False,
    ) -> None:
        self.spec = spec
        self.num_envs = len(seeds)
        self.pictures_per_second = FRAMES_PER_SECOND / spec.frames_per_step
        screen = screen_size(rom)
        self._crop = view.crop_of(*screen)
        emulators = functools.partial(
            _emulators, rom, self.num_envs, spec.frames_per_step, view, rules, num_threads
        )
        # The emulators resize whole screens only.
        self._vector = emulators(screen if self._crop else (view.height, view.width), view.colour)
        # They keep the agent's small images only. A second set with the same seeds and actions
        # plays the same games for people.
        self._coloured = emulators(screen, colour=True) if render else None
        self._seeds = seeds
        self._episodic_life = rules.episodic_life
        self._max_rewardless_steps = rules.max_rewardless_steps or NO_LIMIT
        # As at a reset: games with this button may wait for it before they go on.
        needs_fire = "FIRE" in action_meanings(rom, full_action_set=False)
        self._fire = (spec.action_meanings or ()).index("FIRE") if needs_fire else None
        self._tally = Tally(self.num_envs, level_index)
        self._forget()

    def _forget(self) -> None:
        self._over = np.zeros(self.num_envs, bool)  # the last row ended the game
        self._cut = np.zeros(self.num_envs, bool)  # … of which the emulator does not know
        self._life_lost = np.zeros(self.num_envs, bool)  # the last row ended a life, not the game
        self._died = np.zeros(self.num_envs, bool)  # … and that ended the agent's episode
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
        actions = np.where(self._died, NOOP, actions)
        if self._fire is not None:
            actions = np.where(self._life_lost, self._fire, actions)
        actions = actions.astype(np.int32)
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
        lost = (lives < self._lives) & (lives > 0)
        self._life_lost = lost & ~restarted & ~game_over & ~truncated
        self._died = self._life_lost & ~first & self._episodic_life
        self._lives = lives

        self._rewardless_steps += ~first
        self._rewardless_steps[(reward != 0) | restarted] = 0
        ended = game_over | truncated
        self._cut = (self._rewardless_steps >= self._max_rewardless_steps) & ~ended
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
        self._frames = self._agents_images(observation)
        return EnvironmentStep(self._frames, reward.astype(np.float32), terminated, first)

    def _agents_images(self, screens: np.ndarray) -> np.ndarray:
        shape = self.spec.observation_space.shape
        if self._crop is None:
            return screens.reshape(self.num_envs, *shape)
        return np.array([shown(screen, self._crop, shape) for (screen,) in screens])

    def cut(self, which: np.ndarray) -> None:
        self._cut = self._cut | (which & ~self._over)
        self._over = self._over | which
        self._tally.abandon(which)

    def episodes(self) -> list[Episode]:
        return self._tally.take()

    def render(self, index: int) -> np.ndarray:
        """The screen in colour if requested, otherwise the agent's own image."""
        if self._coloured:
            return self._colours[index, 0]
        image = self._frames[index]
        return np.repeat(image, 3 // image.shape[-1], axis=-1)

    def close(self) -> None:
        self._vector.close()
        if self._coloured:
            self._coloured.close()
