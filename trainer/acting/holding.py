"""Exploration where nothing is rewarded: environments hold random actions, each for a while."""

from collections.abc import Mapping

import numpy as np


class Holding:
    """Puts held actions in place of those that a policy has chosen for a batch of environments.

    An environment that has had no reward for ``after`` steps explores for as many steps, whatever
    comes of it, and goes on if nothing has. All along it holds actions drawn at random, each for
    1 / u steps with u drawn from 0 to 1: most are short, so that it turns often, and some so long
    that it comes far.
    """

    def __init__(self, after: int, actions: int, count: int, seed: int):
        """``actions`` are to choose from in each of ``count`` environments."""
        self._after, self._actions = after, actions
        self._log_prob = np.float32(-np.log(actions))
        self._random = np.random.default_rng(seed)
        self._unrewarded = np.zeros(count, np.int64)  # steps
        self._explores = np.zeros(count, np.int64)  # for so many steps more
        self._holds = np.zeros(count, np.int64)  # its action, for so many steps more
        self._held = np.zeros(count, np.int32)

    def replace(
        self, reward: np.ndarray, action: np.ndarray, recorded: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The actions [B] to take on a row, and what is recorded with them.

        With those that are held, the probability by which they were drawn is recorded, for
        importance weights. That is right where one is drawn, and a usual approximation after that,
        as an action that is held is sure.
        """
        self._unrewarded = np.where(reward != 0.0, 0, self._unrewarded + 1)
        due = (self._explores == 0) & (self._unrewarded > self._after)
        self._explores[due] = self._after
        explores = self._explores > 0
        if not explores.any():
            return action, dict(recorded)
        self._draw(explores & (self._holds == 0))
        self._explores[explores] -= 1
        self._holds = np.where(explores, self._holds - 1, 0)
        log_prob = np.where(explores, self._log_prob, recorded["log_prob"])
        return np.where(explores, self._held, action), {**recorded, "log_prob": log_prob}

    def _draw(self, new: np.ndarray) -> None:
        """Draws an action, and for how long, in these environments."""
        count = int(new.sum())
        lengths = 1.0 / (1.0 - self._random.random(count))
        self._holds[new] = np.minimum(lengths, self._after).astype(np.int64)
        self._held[new] = self._random.integers(self._actions, size=count, dtype=np.int32)
