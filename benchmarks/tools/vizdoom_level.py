"""A ViZDoom level as the trainer can play it: ``--level_name=benchmarks.tools.vizdoom_level:make``.

ViZDoom's own environments observe a picture and the game's variables; an agent here sees one
thing, so this leaves the picture.
"""

from typing import Any

import gymnasium

from user_error import UserError

LEVEL = "VizdoomBasic-v1"


def make(render_mode: str | None = None) -> gymnasium.Env:
    """The level, seen as a picture in colour."""
    try:
        import vizdoom.gymnasium_wrapper  # noqa: F401 (registers the levels)
    except ImportError:
        raise UserError(
            "--level_name: ViZDoom is not installed; `.venv/bin/python -m pip install vizdoom` "
            "adds it."
        ) from None
    env = gymnasium.make(LEVEL, render_mode=render_mode, disable_env_checker=True)
    space = env.observation_space
    assert isinstance(space, gymnasium.spaces.Dict)

    def screen(observation: dict[str, Any]) -> Any:
        return observation["screen"]

    return gymnasium.wrappers.TransformObservation(env, screen, space["screen"])
