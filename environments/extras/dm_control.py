"""``dm_control:DOMAIN-TASK``: a task of the DeepMind Control Suite, of which numbers are seen."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from environments.python.mujoco_pictures import opengl_disabled
from environments.view import View
from user_error import UserError, closest

PIXELS = 480
_DRAWS = "quadruped-escape"  # tells OpenGL of a new terrain at each reset


def make(name: str, view: View, render: bool) -> gymnasium.Env:
    """The task of that name, such as cartpole-swingup."""
    with opengl_disabled():
        from dm_control import suite

    tasks = {f"{domain}-{task}": (domain, task) for domain, task in suite.ALL_TASKS}
    if name not in tasks:
        raise UserError(
            f"--level_name: dm_control:{name}: the Control Suite has no such task. "
            f"{closest(name, tasks)}"
        )
    if name == _DRAWS:
        raise UserError(
            f"--level_name: dm_control:{name} needs OpenGL at each reset, and that is not loaded "
            "where agents act. Give another task."
        )
    domain, task = tasks[name]
    # The process that draws makes another one of this specification.
    made = EnvSpec(
        id=name,
        entry_point=f"{__name__}:ControlSuite",
        disable_env_checker=True,
        kwargs={"domain": domain, "task": task, "options": view.kwargs},
    )
    return gymnasium.make(made, render_mode="rgb_array" if render else None)


class ControlSuite(gymnasium.Env):
    """One task; its Dict of numbers is flattened like all others."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}

    def __init__(
        self, domain: str, task: str, options: dict[str, Any], render_mode: str | None = None
    ) -> None:
        from dm_control import suite  # late, because the first import decides about OpenGL

        _forget_what_mujoco_has_dropped()
        self.render_mode = render_mode
        # A few tasks draw their model, too, which then is the same one in all environments.
        self._env = suite.load(domain, task, task_kwargs={"random": 0, **options})
        self.metadata = {**self.metadata, "render_fps": 1 / self._env.control_timestep()}
        self.observation_space: Any = spaces.Dict(
            {
                name: spaces.Box(-np.inf, np.inf, seen.shape, np.float64)
                for name, seen in self._env.observation_spec().items()
            }
        )
        actions = self._env.action_spec()
        self.action_space: Any = spaces.Box(actions.minimum, actions.maximum, dtype=actions.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self._env.task.random.seed(seed)
        return self._env.reset().observation, {}

    def step(self, action: Any) -> Any:
        row = self._env.step(action)
        over = row.last()
        terminated = over and row.discount == 0  # a time limit leaves it at 1
        return row.observation, row.reward, terminated, over and not terminated, {}

    @property
    def model(self) -> Any:
        """MuJoCo's own, without what dm_control wraps around it."""
        return self._env.physics.model.ptr

    @property
    def data(self) -> Any:
        """MuJoCo's own, too."""
        return self._env.physics.data.ptr

    def render(self) -> Any:
        return self._env.physics.render(PIXELS, PIXELS, camera_id=0)

    def close(self) -> None:
        self._env.close()


def _forget_what_mujoco_has_dropped() -> None:
    """Leaves out of dm_control's list of arrays those that this MuJoCo lacks.

    Each dm_control lists the arrays of one MuJoCo, and wants all of them. Version 4 has no more of
    some that only soft bodies had; no task has one.
    """
    import mujoco
    from dm_control.mujoco.wrapper.mjbindings import sizes

    for struct, kind in (("mjmodel", mujoco.MjModel), ("mjdata", mujoco.MjData)):
        arrays = sizes.array_sizes[struct]
        for name in [one for one in arrays if not hasattr(kind, one)]:
            del arrays[name]
