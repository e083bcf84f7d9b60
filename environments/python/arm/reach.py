"""ArmReach-v0: turn the joints until the tip is at a target, and stay there."""

from typing import Any

import gymnasium
import numpy as np

from environments.python.arm import model

STEPS = 100
NEAR = 0.04  # metres between tip and target that count as reached
SUBSTEPS = 4  # of 10 ms
LOOKING = {"distance": 1.5, "azimuth": 60.0, "elevation": -25.0}


class ArmReach(gymnasium.Env):
    """Torques of three joints; the reward of a step is 1 while the tip is at the target.

    Until then it is up to 0.1, the more the nearer. Observed are sine and cosine of the angles,
    their speeds, where the target is for the arm, and the tip's way there. An episode has 100 steps
    of 40 ms.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}

    def __init__(self, render_mode: str | None = None, size: int = 240):
        import mujoco

        self.render_mode, self._size, self._mujoco = render_mode, size, mujoco
        self.model = model.load()
        self.data = mujoco.MjData(self.model)
        self._renderer: Any = None
        low = np.full(15, -np.inf, np.float32)
        self.observation_space = gymnasium.spaces.Box(low, -low, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Starts from random angles, with a target that the tip can reach."""
        super().reset(seed=seed)
        self._mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = self._angles()
        self._target = self._reachable()
        self.data.mocap_pos[0] = self._target  # part of the state that is drawn elsewhere
        self._mujoco.mj_forward(self.model, self.data)
        self._left = STEPS
        return self._observed(), {}

    def step(self, action: Any) -> Any:
        """Applies torques for 40 ms."""
        self.data.ctrl[:] = action
        self._mujoco.mj_step(self.model, self.data, SUBSTEPS)
        self._left -= 1
        away = float(np.linalg.norm(self._way()))
        reward = 1.0 if away < NEAR else 0.1 * (1.0 - min(1.0, away / model.REACH))
        return self._observed(), reward, False, self._left == 0, {"distance": away}

    def render(self) -> np.ndarray | None:
        """The arm and its target, seen by a camera."""
        if self.render_mode != "rgb_array":
            return None
        if self._renderer is None:
            self._renderer = self._mujoco.Renderer(self.model, self._size, self._size)
            self._camera = self._mujoco.MjvCamera()
            self._camera.lookat[:] = model.CENTRE
            for name, value in LOOKING.items():
                setattr(self._camera, name, value)
        self._renderer.update_scene(self.data, self._camera)
        return self._renderer.render()

    def close(self) -> None:
        """Frees the renderer."""
        if self._renderer is not None:
            self._renderer.close()

    def _angles(self) -> np.ndarray:
        low, high = np.radians(np.array([model.RANGES[name] for name in model.JOINTS]).T)
        return self.np_random.uniform(low, high)

    def _reachable(self) -> np.ndarray:
        while True:  # nine of ten angles have the tip above the table
            place = model.tip(self._angles())
            if place[2] > 0.1:
                return place

    def _way(self) -> np.ndarray:
        return self._target - self.data.site("tip").xpos

    def _observed(self) -> np.ndarray:
        angles = self.data.qpos
        place = self._place(angles[0])
        parts = (np.sin(angles), np.cos(angles), 0.2 * self.data.qvel, place, self._way())
        return np.concatenate(parts).astype(np.float32)

    def _place(self, base: float) -> tuple[float, float, float]:
        """How far the base has to turn to the target, how far the target is out, and how high.

        The base turns by 180 degrees in all. What is behind it is reached backwards: as far out,
        but less than 0. Seen as x, y and z, an agent finds only what is in front.
        """
        x, y, height = self._target
        forwards = 1.0 if x >= 0 else -1.0
        turn = np.arctan2(forwards * y, forwards * x) - base
        return turn, forwards * np.hypot(x, y), height
