"""ArmReachPictures-v0: the same task, but all that is seen of it are pictures."""

import copy

import gymnasium
import numpy as np

from environments.python.arm.reach import ArmReach
from environments.python.mujoco_pictures import MujocoPictures


class ArmReachPictures(ArmReach):
    """What a camera sees of arm and target. Another process draws, one for each environment."""

    draws_elsewhere = True

    def __init__(self, render_mode: str | None = None, size: int = 64):
        super().__init__(render_mode, size)
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 3), np.uint8)
        self._pictures: MujocoPictures | None = None

    def render(self) -> np.ndarray | None:
        """What is observed."""
        return None if self.render_mode is None else self._observed()

    def close(self) -> None:
        """Ends the process that draws."""
        if self._pictures:
            self._pictures.close()

    def _observed(self) -> np.ndarray:
        return self._drawer.picture(self)

    @property
    def _drawer(self) -> MujocoPictures:
        if self._pictures is None:
            drawn = copy.deepcopy(gymnasium.spec("ArmReach-v0"))
            drawn.kwargs = {"render_mode": "rgb_array", "size": self._size}
            self._pictures = MujocoPictures(drawn)
        return self._pictures
