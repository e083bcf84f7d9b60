"""``robotics:ID``: a world of Gymnasium-Robotics: an arm, a hand, a maze, most with a goal."""

import contextlib
import copy
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from environments.python.mujoco_pictures import opengl_disabled
from environments.view import View
from user_error import UserError, closest

_before = dict(gymnasium.registry)
# It prints what changed in versions of single worlds, whichever is played.
with opengl_disabled(), contextlib.redirect_stderr(io.StringIO()):
    import gymnasium_robotics  # noqa: F401  registers its ids
    import mujoco
    from gymnasium_robotics.utils import mujoco_utils

gymnasium.registry.update(_before)  # it replaces old versions of Gymnasium's own, such as Hopper-v2
_OF_MUJOCO_PY = "MujocoPy"  # MuJoCo's old bindings, which nobody maintains


def make(name: str, view: View, render: bool) -> gymnasium.Env:
    """The world with that id, such as FetchReach-v4."""
    worlds = _worlds()
    if name not in worlds:
        raise UserError(
            f"--level_name: robotics:{name}: Gymnasium-Robotics has no such world. "
            f"{closest(name, worlds)}"
        )
    spec = copy.deepcopy(gymnasium.spec(name))
    # The process that draws makes another one of this specification, so by way of this module.
    spec.entry_point = f"{__name__}:create"
    spec.kwargs["entry_point"] = worlds[name]
    options = view.kwargs | ({"render_mode": "rgb_array"} if render else {})
    return gymnasium.make(spec, disable_env_checker=True, **options)


def create(entry_point: str, **options: Any) -> gymnasium.Env:
    """A world without Gymnasium's wrappers."""
    _compare_joints_as_numbers()
    env: Any = load_env_creator(entry_point)(**options)
    maze = getattr(env, "tmp_xml_file_path", None)
    if maze:  # it was read, and would stay
        Path(maze).unlink(missing_ok=True)
    return env


def _worlds() -> dict[str, str]:
    """The ids, and what makes each."""
    made_by = {one: str(spec.entry_point) for one, spec in gymnasium.registry.items()}
    return {
        one: path
        for one, path in made_by.items()
        if path.startswith("gymnasium_robotics.") and _OF_MUJOCO_PY not in path
    }


def _compare_joints_as_numbers() -> None:
    """Shows its functions the kinds of joints as numbers.

    They look for a number of NumPy's in a tuple of MuJoCo's enumeration, in which MuJoCo 4 no
    longer finds it.
    """
    kinds = {name: int(kind) for name, kind in mujoco.mjtJoint.__members__.items()}
    mujoco_utils.mujoco = SimpleNamespace(**{**vars(mujoco), "mjtJoint": SimpleNamespace(**kinds)})
