"""Pictures of MuJoCo's worlds, drawn by a process of their own.

Where no screen is, Mesa may have to draw. It and TensorFlow each bring an LLVM, and with both in
one process the first picture, or the last breath of the process, is a crash.
"""

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

NEEDS = (
    "MuJoCo draws where libegl1 and a driver of OpenGL are installed, or libosmesa6 with "
    "MUJOCO_GL=osmesa"
)


class MujocoPictures:
    """Draws worlds of one kind in whatever state they are."""

    def __init__(self, env: gymnasium.Env):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_draw, args=(theirs, env.unwrapped.spec), daemon=True
        )
        self._process.start()
        # Else the end of that process would not be noticed here.
        theirs.close()

    def picture(self, env: gymnasium.Env) -> np.ndarray:
        """The world as it is now, uint8 [H, W, 3]; ``RuntimeError`` where it cannot be drawn."""
        import mujoco

        world: Any = env.unwrapped
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(mujoco.mj_stateSize(world.model, kind))
        mujoco.mj_getState(world.model, world.data, state, kind)
        try:
            self._pipe.send(state)
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            answer = f"the process that draws ended with exit code {self._process.exitcode}"
        if isinstance(answer, str):
            raise RuntimeError(f"{answer}. {NEEDS}")
        return answer

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join(timeout=5)
        self._process.kill()


def is_mujoco(env: gymnasium.Env) -> bool:
    """Whether it is a world of MuJoCo that a process of its own can make anew."""
    if "mujoco" not in sys.modules or env.unwrapped.spec is None:
        return False
    import mujoco

    return isinstance(getattr(env.unwrapped, "data", None), mujoco.MjData)


@contextlib.contextmanager
def without_opengl(level_id: str) -> Iterator[None]:
    """Keeps MuJoCo, where one of Gymnasium's worlds imports it, from loading OpenGL as well.

    What MUJOCO_GL names may not be installed, or crash beside TensorFlow; only drawing needs it.
    """
    known = gymnasium.registry.get(level_id)
    wanted = os.environ.get("MUJOCO_GL")
    if wanted is None or not str(known and known.entry_point).startswith("gymnasium.envs.mujoco"):
        yield
        return
    os.environ["MUJOCO_GL"] = "disable"
    try:
        yield
    finally:
        os.environ["MUJOCO_GL"] = wanted


def _draw(pipe: Connection, spec: Any) -> None:
    """Takes states and gives pictures, or the reason why not, until the other end is closed."""
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
    env: Any = None
    while True:
        try:
            state = pipe.recv()
        except EOFError:
            return
        try:
            env = env or _made(spec)
            pipe.send(_drawn(env, state))
        except Exception as error:  # OpenGL's are of many kinds; the other end raises it
            pipe.send(f"{type(error).__name__}: {error}")


def _made(spec: Any) -> gymnasium.Env:
    env = gymnasium.make(spec, disable_env_checker=True)
    env.reset(seed=0)
    return env


def _drawn(env: gymnasium.Env, state: np.ndarray) -> Any:
    import mujoco

    world: Any = env.unwrapped
    mujoco.mj_setState(world.model, world.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(world.model, world.data)
    return env.render()
