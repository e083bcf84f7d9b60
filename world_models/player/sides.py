"""The two games of the player: the real one, and the model's."""

from collections.abc import Callable

import numpy as np

from environments import EnvironmentStep, Episode, VectorEnvironment
from user_error import UserError
from world_models.training.world_model import WorldModel

# A world in real time has no picture at first, which is waited for.
PICTURE_WITHIN_S = 10.0


class Side:
    """One game: its newest picture, rewards and whether it is over."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Nothing was played yet."""
        self.total, self.reward, self.steps, self.over = 0.0, 0.0, 0, False

    def count(self, reward: float, over: bool) -> None:
        """Takes in what a step has brought."""
        self.reward, self.over = reward, over
        self.total += reward
        self.steps += 1


class RealGame(Side):
    """One environment, rendered as its agent or as people see it."""

    def __init__(self, make: Callable[[int], VectorEnvironment], rendered: bool):
        """``make`` opens the game; another number is another course of it."""
        self._make, self._rendered = make, rendered
        self._number = 0
        self.ended: list[Episode] = []  # games, all lives of each, with the newest step
        self._open()
        self.spec = self._environment.spec
        super().__init__()
        if self.picture.ndim != 3:
            self.close()
            raise UserError(
                f"--level_name={self.spec.level_name} draws no pictures, and there is nothing to "
                "see without; name one that does (a Gymnasium environment: in mode rgb_array)."
            )

    def reset(self) -> None:
        """Starts another game."""
        self._environment.close()
        self._number += 1
        self._open()
        self.restart()

    def _open(self) -> None:
        """Opens the game, and waits until it can be seen as it will be: all pictures are alike."""
        environment = self._environment = self._make(self._number)
        row, left = environment.reset(), PICTURE_WITHIN_S * environment.pictures_per_second
        while self._rendered and environment.render(0) is None and left > 0:
            spoilt = environment.spoilt()
            if spoilt is None or not spoilt[0]:
                break
            row, left = environment.step(np.zeros(1, np.int32)), left - 1
        self._row = self._copied(row)

    def step(self, action: int) -> EnvironmentStep:
        """Takes an action; after an episode's end, that starts the next one."""
        row = self._environment.step(np.array([action], np.int32))
        self.ended = self._environment.episodes()
        self._row = self._copied(row)
        if row.first[0]:
            self.restart()
        else:
            self.count(float(row.reward[0]), bool(row.terminated[0]))
        return self._row

    @property
    def pictures_per_second(self) -> float:
        """Steps a second, at the speed for people."""
        return self._environment.pictures_per_second

    @property
    def row(self) -> EnvironmentStep:
        """The newest one, of one environment."""
        return self._row

    @property
    def picture(self) -> np.ndarray:
        """[H, W, C] uint8."""
        if self._rendered:
            drawn = self._environment.render(0)
            if drawn is not None:
                return drawn
        return self._row.observation[0]

    def close(self) -> None:
        """Ends it."""
        self._environment.close()

    @staticmethod
    def _copied(row: EnvironmentStep) -> EnvironmentStep:
        return EnvironmentStep(*(np.array(one) for one in row))


class DreamedGame(Side):
    """The model, one game at a time."""

    def __init__(self, model: WorldModel):
        self._model = model
        super().__init__()

    def become(self, pictures: list[np.ndarray]) -> None:
        """Goes on from these real pictures [H, W, C], the newest last; older ones repeat."""
        frames = self._model.sizes.frames
        newest = pictures[-frames:]
        newest = [newest[0]] * (frames - len(newest)) + newest
        self._stack = np.concatenate(newest, axis=-1)[None]
        self._state = self._model.initial_state(1)
        self.restart()

    def step(self, action: int) -> None:
        """Takes an action, unless the model's game is over."""
        if self.over:
            return
        found = self._model.predict(self._stack, np.array([action], np.int32), self._state)
        channels = self._model.sizes.channels
        self._stack = np.concatenate([self._stack[..., channels:], found.observation], axis=-1)
        self._state = found.state
        self.count(float(np.rint(found.reward[0])), bool(found.end[0]))

    @property
    def picture(self) -> np.ndarray:
        """[H, W, C] uint8."""
        return self._stack[0, ..., -self._model.sizes.channels :]
