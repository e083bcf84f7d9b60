"""``--video`` and ``--watch``: draws the first environment's games to a file or a window."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from environments import EnvironmentStep, VectorEnvironment
from trainer import build
from trainer.acting.playing import Choice, Onlooker
from trainer.settings.config import Settings
from trainer.trained.dashboard import Dashboard
from trainer.trained.movie import Movie, temporary
from user_error import UserError

Value = Callable[[np.ndarray], float]  # the value of one environment's baselines


def prepare(settings: Settings, folder: Path) -> None:
    """Checks, before environments are made, that videos can be written and games be drawn.

    Those of ``--num_videos`` are going to be in ``folder``.
    """
    if settings.trained.watch and not _has_display():
        raise UserError(
            "--watch needs a screen, and there is none here (DISPLAY is not set). "
            "Record the game instead: --video=FILE.mp4."
        )
    if settings.trained.video:
        _check_writable(Path(settings.trained.video), f"--video={settings.trained.video}")
    if settings.trained.num_videos:
        folder = folder / "videos"
        _check_writable(folder / "1.mp4", f"--num_videos: {folder}")
    if not _has_display():
        # Several of Gymnasium's simulators draw with SDL, which reads this when it starts.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def named(path: str, suffix: str) -> str:
    """``--video`` with ``suffix`` at the end of its name, where games are played elsewhere."""
    whole = Path(path)
    return str(whole.with_stem(whole.stem + suffix)) if path and suffix else path


def files(
    settings: Settings, folder: Path, level: int, cell: str, rows: Sequence[int], suffix: str = ""
) -> dict[int, Path]:
    """The video's file of each environment that ``--video`` or ``--num_videos`` record.

    ``rows`` are the environments in which the agent plays; ``cell`` is the name of a combination
    of ``--grid``; ``suffix`` ends all names.
    """
    path = named(settings.trained.video, suffix)
    found = {0: Path(path)} if path else {}
    name = f"{settings.level.levels[level]} {cell}".strip()
    name = re.sub(r"[^\w.=-]+", "_", name)
    for number, row in enumerate(rows[: settings.trained.num_videos], 1):
        found.setdefault(row, folder / "videos" / f"{name}_{number}{suffix}.mp4")
    return found


@contextlib.contextmanager
def spectators(
    settings: Settings,
    environment: VectorEnvironment,
    value: Value,
    files: Mapping[int, Path],
    warn: Callable[[str], None],
) -> Iterator[tuple[Onlooker, ...]]:
    """The onlookers of games in ``environment``; finishes the videos at the end, or warns.

    ``files`` has a video's file for each environment that is recorded.
    """
    if not (files or settings.trained.watch):
        yield ()
        return
    rate = environment.pictures_per_second
    with contextlib.ExitStack() as stack:
        window = stack.enter_context(Window(rate)) if settings.trained.watch else None
        check_drawable(_flag(settings), environment)
        movies = {i: stack.enter_context(Movie(path, rate)) for i, path in files.items()}
        subtitle = f"{settings.agent.agent_name}, {settings.trained.test_policy} actions"
        of_actions = build.algorithm(settings).heads.action_values

        def spectator(index: int) -> Spectator:
            dashboard = Dashboard(environment.spec, subtitle, of_actions, index)
            shown_in = window if index == 0 else None
            return Spectator(dashboard, value, movies.get(index), shown_in, index)

        watched = {0, *movies} if window else set(movies)
        yield tuple(spectator(index) for index in sorted(watched))
    for index, movie in movies.items():
        if movie.problem:
            warn(f"warning: {files[index]} could not be written ({movie.problem}).")


class Window:
    """A window that shows pictures at the speed at which people play."""

    def __init__(self, pictures_per_second: float):
        import pygame  # only --watch needs it

        # With OpenGL it may crash: Mesa and TensorFlow each bring an LLVM.
        os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
        self._pygame = pygame
        self._rate = pictures_per_second
        self._open = True

    def __enter__(self) -> "Window":
        try:
            self._pygame.display.init()
        except self._pygame.error as error:
            raise UserError(
                f"--watch: no window can be opened here ({error}). "
                "Record the game instead: --video=FILE.mp4."
            ) from error
        self._clock = self._pygame.time.Clock()
        return self

    def __exit__(self, *error: Any) -> None:
        self._pygame.display.quit()

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return self._open

    def show(self, picture: np.ndarray) -> None:
        """Waits until the picture is due and shows it; does nothing once the window is closed."""
        pygame = self._pygame
        if not self._open:
            return
        size = (picture.shape[1], picture.shape[0])
        surface = pygame.display.get_surface()
        if surface is None or surface.get_size() != size:
            surface = pygame.display.set_mode(size)
            pygame.display.set_caption("IMPALA")
        pygame.surfarray.blit_array(surface, picture.swapaxes(0, 1))
        pygame.display.flip()
        self._clock.tick(self._rate)
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            self._open = False
            pygame.display.quit()


class Spectator:
    """Draws an environment: its first game for the movie, all for the window."""

    def __init__(
        self,
        dashboard: Dashboard,
        value: Value,
        movie: Movie | None,
        window: Window | None,
        index: int = 0,
    ):
        self._index = index
        self._dashboard = dashboard
        self._value = value
        self._movie = movie
        self._window = window
        self._waiting: np.ndarray | None = None  # the newest picture before the game begins
        self._begun = False

    def __call__(
        self,
        environment: VectorEnvironment,
        step: EnvironmentStep,
        choice: Choice,
        over: np.ndarray,
    ) -> None:
        """Draws one step of the game."""
        index, bodies = self._index, environment.spec.num_bodies
        game = index // bodies
        recording = self._movie is not None and not over[game]
        if not recording and not (self._window and self._window.is_open):
            return
        picture = environment.render(index)
        if picture is None:  # a world in real time that is not there yet
            return
        drawn = self._dashboard.draw(
            picture,
            reward=float(step.reward[index]),
            first=bool(step.first[index]),
            action=choice.action[index],
            policy=choice.policy[index],
            value=self._value(choice.baseline[index]),
        )
        if recording and self._movie:
            self._begun |= not step.first[bodies * game : bodies * (game + 1)].all()
            self._record(self._movie, drawn)
        if self._window:
            self._window.show(drawn)

    def _record(self, movie: Movie, drawn: np.ndarray) -> None:
        """Adds a picture; of those before the game begins, the last one only."""
        if not self._begun:
            self._waiting = drawn
            return
        if self._waiting is not None:
            movie.add(self._waiting)
            self._waiting = None
        movie.add(drawn)


def check_drawable(flag: str, environment: VectorEnvironment) -> None:
    """Draws once, so that missing libraries are reported before anything is played."""
    level = environment.spec.level_name
    environment.reset()
    try:
        picture = environment.render(0)
    except Exception as error:  # each simulator has errors of its own for a missing library
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{flag}: {level} cannot be drawn here: {reason}.") from error
    spoilt = environment.spoilt()
    # A world in real time has no picture while it is not there.
    if picture is None and (spoilt is None or not spoilt[0]):
        raise UserError(f"{flag}: {level} cannot be drawn: it has no render mode rgb_array.")


def _flag(settings: Settings) -> str:
    """The flag that asks for pictures."""
    test = settings.trained
    return "--video" if test.video else "--num_videos" if test.num_videos else "--watch"


def _check_writable(path: Path, flag: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = temporary(path, ".probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"{flag}: cannot write there: {error.strerror}.") from error
    if path.is_dir():
        raise UserError(f"{flag} is a folder; expected the name of a file.")


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
