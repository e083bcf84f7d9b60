"""Pictures of MuJoCo worlds, rendered in a separate process.

Without a screen, Mesa may have to render. It and TensorFlow each bring an LLVM, and with both in
one process it crashes at the first picture or at its exit.
"""

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

from user_error import EndedOutside, UserError

WORLDS = ("gymnasium.envs.mujoco", "environments.python.arm")
# Of a model; some worlds move or colour what is aimed at, and that is no part of a state.
LOOKS = (
    *("body_pos", "body_quat", "geom_pos", "geom_size", "geom_rgba"),
    *("site_pos", "site_size", "site_rgba", "mat_rgba", "light_pos"),
)
NEEDS = "To render, MuJoCo needs libegl1 and an OpenGL driver, or libosmesa6 with MUJOCO_GL=osmesa"
CLOSE_TIMEOUT_S = 5.0
# MUJOCO_GL is the whole process's. Who changes it for a while holds this, and who starts a process
# that is to have the user's.
OPENGL = threading.RLock()

# A fresh interpreter that does not import the program which draws, unlike multiprocessing's. The
# path comes first: without it, nothing else could be imported.
_PROGRAM = """
import sys
from multiprocessing.connection import Connection
pipe = Connection(int(sys.argv[1]))
sys.path[:] = pipe.recv()
from environments.python.mujoco_pictures import draw
draw(pipe)
"""


class CannotDraw(UserError, RuntimeError):
    """MuJoCo renders nothing here."""


class DrawingEnded(EndedOutside, RuntimeError):
    """What has rendered until now does not any more."""


class MujocoPictures:
    """Renders worlds of one kind in any state."""

    def __init__(self, spec: Any):
        """``spec`` is Gymnasium's, with the arguments that make it render."""
        world = pickle.dumps(spec)
        ours, theirs = socket.socketpair()
        with theirs, OPENGL:
            # The last argument is for those who look at the list of processes.
            arguments = (str(theirs.fileno()), f"pictures of {spec.id}")
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C does not reach it: who starts it ends it
            )
        self._pipe = Connection(ours.detach())
        with contextlib.suppress(OSError):  # that it has ended shows at the first picture
            self._pipe.send(sys.path)
            self._pipe.send(world)
        self._has_drawn = False

    def picture(self, env: gymnasium.Env) -> np.ndarray:
        """The world as it is now, uint8 [H, W, 3]; ``RuntimeError`` if it cannot be rendered."""
        import mujoco

        world: Any = env.unwrapped
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(mujoco.mj_stateSize(world.model, kind))
        mujoco.mj_getState(world.model, world.data, state, kind)
        looks = {name: getattr(world.model, name) for name in LOOKS}
        try:
            self._pipe.send((state, looks, getattr(world, "goal", None)))
            answer = self._pipe.recv()
        except (EOFError, OSError):
            answer = f"the rendering process ended with exit code {self._process.wait()}"
        if isinstance(answer, str):
            if self._has_drawn:
                raise DrawingEnded(f"MuJoCo draws no more pictures: {' '.join(answer.split())}")
            raise cannot_draw(answer)
        self._has_drawn = True
        return answer

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)
        self._process.kill()
        self._process.wait()


def cannot_draw(reason: str) -> CannotDraw:
    """The mistake in one line, with what is to be installed."""
    return CannotDraw(f"MuJoCo draws no pictures here ({' '.join(reason.split())}). {NEEDS}.")


def is_mujoco(env: gymnasium.Env) -> bool:
    """Whether it is a MuJoCo world that another process can create again, and has to."""
    drawn = getattr(env.unwrapped, "draws_elsewhere", False)
    if drawn or "mujoco" not in sys.modules or env.unwrapped.spec is None:
        return False
    import mujoco

    return isinstance(getattr(env.unwrapped, "data", None), mujoco.MjData)


@contextlib.contextmanager
def without_opengl(level_id: str) -> Iterator[None]:
    """Keeps MuJoCo from loading OpenGL when one of these worlds imports it.

    The library in MUJOCO_GL may be missing, or crash beside TensorFlow; only rendering needs it.
    """
    known = gymnasium.registry.get(level_id)
    if "MUJOCO_GL" not in os.environ or not str(known and known.entry_point).startswith(WORLDS):
        yield
        return
    with opengl_disabled():
        yield


@contextlib.contextmanager
def opengl_disabled() -> Iterator[None]:
    """Keeps MuJoCo, and what is built on it, from loading OpenGL when it is imported."""
    with OPENGL:
        backend = os.environ.get("MUJOCO_GL")
        os.environ["MUJOCO_GL"] = "disable"
        try:
            yield
        finally:
            if backend is None:
                del os.environ["MUJOCO_GL"]
            else:
                os.environ["MUJOCO_GL"] = backend


def draw(pipe: Connection) -> None:
    """Receives a spec, then what is to be seen; sends pictures or errors until the pipe ends."""
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
    env: Any = None
    spec = pipe.recv()
    while True:
        try:
            seen = pipe.recv()
        except EOFError:
            return
        try:
            env = env or _made(pickle.loads(spec))
            pipe.send(_drawn(env, *seen))
        except Exception as error:  # OpenGL raises many kinds; the other end raises it again
            pipe.send(named(error))


def named(error: Exception) -> str:
    """The error with its kind, without which many say little."""
    return f"{type(error).__name__}: {error}"


def _made(spec: Any) -> gymnasium.Env:
    env = gymnasium.make(spec, disable_env_checker=True)
    env.reset(seed=0)
    return env


def _drawn(env: gymnasium.Env, state: np.ndarray, looks: dict[str, np.ndarray], goal: Any) -> Any:
    import mujoco

    world: Any = env.unwrapped
    for name, values in looks.items():
        getattr(world.model, name)[:] = values
    if goal is not None:
        world.goal = goal  # Gymnasium-Robotics shows it when it draws
    mujoco.mj_setState(world.model, world.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(world.model, world.data)
    return env.render()
