"""One game with the parallel API of PettingZoo: whose turn it is to be seen, act and leave."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Rows(NamedTuple):
    """What a reset or a step gives the K bodies of a game."""

    seen: dict[int, Any]  # body: what it observes; for those that play or have just ended
    reward: np.ndarray  # float32 [K]
    terminated: np.ndarray  # bool [K]
    first: np.ndarray  # bool [K], no action of the body's led here: it came, or has no part
    over: np.ndarray  # bool [K], the body's episode has ended


class Game:
    """Follows the bodies of one environment through its episodes.

    A body's episode begins when the game first shows it something, and ends when the game says so
    or does not know it any more. Until the next episode of all, its rows are `first`. The step
    after the last body has left resets the game.
    """

    def __init__(self, env: Any, bodies: tuple[str, ...]) -> None:
        self.env = env
        self._bodies = bodies
        self._playing = np.zeros(len(bodies), bool)
        self._left: set[str] = set()
        self._last: dict[int, Any] = {}  # what was seen last

    def reset(self, seed: int | None = None) -> Rows:
        """Starts an episode of all."""
        observation, _ = self.env.reset(seed=seed)
        self._left = set()
        seen = self._last = self._seen(observation)
        self._playing = np.isin(np.arange(len(self._bodies)), list(seen))
        nothing = np.zeros(len(self._bodies), bool)
        return Rows(seen, nothing.astype(np.float32), nothing, ~nothing, nothing)

    def step(self, actions: Sequence[Any]) -> Rows:
        """Takes the actions of the K bodies, as far as they play, or resets a game that is over."""
        staying = self._staying()
        if not staying:
            return self.reset()
        chosen = {body: actions[i] for i, body in enumerate(self._bodies) if body in staying}
        observation, reward, terminated, truncated, _ = self.env.step(chosen)
        self._left |= {body for ends in (terminated, truncated) for body in ends if ends[body]}
        was_playing, staying = self._playing, self._staying()
        # Some games show a body that leaves nothing more, but its last step counts.
        gone = [i for i, body in enumerate(self._bodies) if was_playing[i] and body not in staying]
        told = [i for i in gone if self._bodies[i] in reward or self._bodies[i] in terminated]
        seen = {i: self._last[i] for i in told} | self._seen(observation)
        self._last = seen
        acted = was_playing & np.isin(np.arange(len(self._bodies)), list(seen))
        self._playing = np.array(
            [i in seen and body in staying for i, body in enumerate(self._bodies)]
        )
        shown = acted | self._playing
        return Rows(
            seen={i: value for i, value in seen.items() if shown[i]},
            reward=np.where(acted, self._of_bodies(reward, np.float32), 0),
            terminated=acted & self._of_bodies(terminated, bool),
            first=~acted,
            over=was_playing & ~self._playing,
        )

    def cut(self) -> None:
        """Makes the next step a reset."""
        self._left.update(self.env.agents)

    def _staying(self) -> set[str]:
        """The bodies that have a part in the next step; a game may name more than it shows."""
        return set(self.env.agents) - self._left

    def _seen(self, observation: dict[str, Any]) -> dict[int, Any]:
        return {i: observation[body] for i, body in enumerate(self._bodies) if body in observation}

    def _of_bodies(self, values: dict[str, Any], kind: Any) -> np.ndarray:
        return np.array([values.get(body, 0) for body in self._bodies], kind)
