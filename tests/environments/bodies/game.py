"""A game with PettingZoo's parallel API: one body leaves early, one comes late, one never comes."""

import time
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

LENGTH = 6
FROM_TO = {"early": (0, 2), "whole": (0, LENGTH), "late": (3, LENGTH), "never": (99, 99)}
BODIES = tuple(FROM_TO)


class Shift:
    """Each body sees the time and its own number; the reward is the time, or the body's action.

    `early` ends for good, `whole` is only cut off, `late` ends for good at the end of all.
    """

    metadata = {"render_fps": 7}
    possible_agents = list(BODIES)

    def __init__(self, pay_actions: bool = False, render_mode: str | None = None) -> None:
        self._pay_actions = pay_actions
        self.taken: list[dict[str, Any]] = []
        self.seeds: list[int | None] = []

    def observation_space(self, body: str) -> Box:
        return Box(0, 9, (2,), np.float32)

    def action_space(self, body: str) -> Discrete:
        return Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        self._time = 0
        self.agents = ["early", "whole"]
        return self._seen(self.agents), {}

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        self.taken.append(actions)
        self._time += 1
        there = list(self.agents)
        reward = {body: float(actions[body] if self._pay_actions else self._time) for body in there}
        ends = {body: FROM_TO[body][1] == self._time for body in there}
        terminated = {body: ends[body] and body != "whole" for body in there}
        truncated = {body: ends[body] and body == "whole" for body in there}
        self.agents = [body for body in there if not ends[body]]
        if self._time == FROM_TO["late"][0]:
            self.agents.append("late")
            there.append("late")
        return self._seen(there), reward, terminated, truncated, {}

    def _seen(self, bodies: list[str]) -> dict[str, np.ndarray]:
        return {body: np.array([self._time, BODIES.index(body)], np.float32) for body in bodies}

    def render(self) -> np.ndarray:
        return np.full([8, 8, 3], self._time, np.uint8)

    def close(self) -> None:
        pass


def parallel_env(**options: Any) -> Shift:
    return Shift(**options)


class Vanishing(Shift):
    """`early` is suddenly not there any more, and nobody says that it has ended."""

    def step(self, actions: dict[str, Any]) -> Any:
        observation, reward, terminated, truncated, info = super().step(actions)
        if self._time == FROM_TO["early"][1]:
            del observation["early"], reward["early"], terminated["early"], truncated["early"]
        return observation, reward, terminated, truncated, info


class Unseen(Shift):
    """Shows a body that leaves nothing more, but says that it has ended, and pays it."""

    def step(self, actions: dict[str, Any]) -> Any:
        observation, *others = super().step(actions)
        seen = {body: value for body, value in observation.items() if body in self.agents}
        return seen, *others


class Unlike(Shift):
    """Bodies that see and do different things: `whole` more than `early`, the others as these."""

    def observation_space(self, body: str) -> Box:
        return Box(0, 9, (2 + BODIES.index(body) % 2,), np.float32)

    def action_space(self, body: str) -> Discrete:
        return Discrete(2 + 3 * (BODIES.index(body) % 2), start=7)

    def step(self, actions: dict[str, Any]) -> Any:
        for body, action in actions.items():
            assert self.action_space(body).contains(action), (body, action)
        return super().step(actions)

    def _seen(self, bodies: list[str]) -> dict[str, np.ndarray]:
        seen = super()._seen(bodies)
        return {
            body: np.append(one, np.float32(5)) if BODIES.index(body) % 2 else one
            for body, one in seen.items()
        }


class Mixed(Shift):
    """Bodies of which some see pictures, and some numbers."""

    def observation_space(self, body: str) -> Box:
        whole = body == "whole"
        return Box(0, 255, (8, 8, 3), np.uint8) if whole else super().observation_space(body)


class Unhurried(Shift):
    """Takes a while for a step, which leaves the cores to others."""

    def step(self, actions: dict[str, Any]) -> Any:
        time.sleep(0.0005)
        return super().step(actions)


class Endless(Shift):
    """Cannot be closed."""

    close: Any = property()  # as if there were none


def vanishing(env: Shift) -> Shift:
    """A wrapper of `--wrappers`."""
    return Vanishing()


def unseen(env: Shift) -> Shift:
    """Another one."""
    return Unseen()


def unlike(env: Shift) -> Shift:
    """Another one."""
    return Unlike(env._pay_actions)


def mixed(env: Shift) -> Shift:
    """Another one."""
    return Mixed()


def unhurried(env: Shift) -> Shift:
    """Another one."""
    return Unhurried()


def endless(env: Shift) -> Shift:
    """Another one."""
    return Endless()


def nothing(env: Shift) -> object:
    """A wrapper that returns something else."""
    return object()
