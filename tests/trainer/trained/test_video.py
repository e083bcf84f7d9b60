"""Videos and the window: what they show, and errors where they cannot be made."""

import json
import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import environments
from agents import FORBIDDEN
from environments import EnvironmentSpec, EnvironmentStep, Episode, VectorEnvironment
from environments.python.mujoco_pictures import MujocoPictures
from tests.environments.realtime.remotes import REWARDING
from tests.pictures import frames, pictures_per_second
from tests.trainer.disks import files_limited_to
from tests.trainer.untrained import make_run
from trainer.settings.config import Settings
from trainer.trained import video
from trainer.trained.dashboard import Dashboard, bars, fitted
from trainer.trained.evaluation import Place, evaluate
from trainer.trained.movie import Movie
from user_error import UserError


@pytest.fixture
def cartpole(tmp_path: Path) -> Path:
    make_run(tmp_path / "run", "CartPole-v1")
    return tmp_path / "run"


def played(folder: Path, **changes: Any) -> dict[str, Any]:
    """Evaluates; returns the figures of each level."""
    evaluate(Settings(mode="test", logdir=str(folder), **changes))
    return json.loads((folder / "evaluation.json").read_text())["levels"]


def refused(folder: Path, **changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        evaluate(Settings(mode="test", logdir=str(folder), **changes))
    assert "\n" not in str(caught.value)
    assert not (folder / "evaluation.json").exists()
    return str(caught.value)


def test_an_mp4_shows_the_first_game_from_its_first_picture_to_its_last(cartpole, tmp_path):
    path = tmp_path / "new folder" / "game.mp4"
    found = played(cartpole, video=str(path), test_num_episodes=3)["CartPole-v1"]
    pictures = frames(path)
    assert len(pictures) == found["lengths"][0] + 1
    assert pictures.shape[1] % 16 == pictures.shape[2] % 16 == 0
    assert pictures_per_second(path) == 50
    pairs = zip(pictures[:-1], pictures[1:], strict=True)
    assert all((one != other).mean() > 0.001 for one, other in pairs)
    assert list(path.parent.iterdir()) == [path]


class World(VectorEnvironment):
    """A world in real time that is not there at first; a row of its first game comes late."""

    num_envs, pictures_per_second = 1, 10.0
    first = (True, True, True, False, True, False, True, False)
    over = (5, 7)

    def __init__(self) -> None:
        self.spec = environments.spec("CartPole-v1")

    def reset(self) -> EnvironmentStep:
        self._row = 0
        return self._step()

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        self._row += 1
        return self._step()

    def _step(self) -> EnvironmentStep:
        zero = np.zeros(1, np.float32)
        seen, first = np.zeros([1, 4], np.float32), np.array([self.first[self._row]])
        return EnvironmentStep(seen, zero, zero > 0, first)

    def episodes(self) -> list[Episode]:
        return [Episode(0, 1.0, 2, 2)] if self._row in self.over else []

    def spoilt(self) -> np.ndarray:
        return np.array([self._row == 0])

    def render(self, index: int) -> np.ndarray | None:
        return np.full([8, 8, 3], 20 * self._row, np.uint8) if self._row else None

    def close(self) -> None:
        pass


def test_a_video_begins_with_the_game_and_not_with_the_wait_for_it(cartpole, tmp_path):
    video = str(tmp_path / "game.mp4")
    settings = Settings(mode="test", logdir=str(cartpole), video=video, test_num_episodes=2)
    evaluate(settings, (), Place(lambda *_: World()))
    pictures = frames(video)
    assert len(pictures) == 4  # rows 2 to 5
    brightness = [one[100:300, 100:300].mean() for one in pictures]
    np.testing.assert_allclose(brightness, [40, 60, 80, 100], atol=8)


def test_games_that_are_played_elsewhere_have_videos_of_their_own(cartpole, tmp_path, capsys):
    path = str(tmp_path / "game.mp4")
    settings = Settings(mode="test", logdir=str(cartpole), video=path, test_num_episodes=2)
    evaluate(settings, (), Place(lambda *_: World(), "_in_model"))
    own = tmp_path / "game_in_model.mp4"
    assert [*tmp_path.glob("*.mp4")] == [own]
    assert f"Video: {own} (first game)" in capsys.readouterr().out
    found = video.files(
        settings.replace(num_videos=2), tmp_path, 0, "noops=0", range(2), "_in_model"
    )
    name = "PongNoFrameskip-v4_noops=0_2_in_model.mp4"
    assert found == {0: own, 1: tmp_path / "videos" / name}


@pytest.mark.xdist_group("remotes")
def test_the_first_game_of_a_world_in_real_time_is_recorded(tmp_path, monkeypatch):
    # Rows that come late are no steps; on a busy machine some are.
    monkeypatch.setattr("environments.realtime.environment.MOST_LATE_S", 60.0)
    level = f"vnc:{REWARDING}"
    make_run(tmp_path / "run", level, fps=30, width=40, height=40)
    path = tmp_path / "game.mp4"
    lengths = played(tmp_path / "run", video=str(path), test_num_episodes=8)[level]["lengths"]
    pictures = frames(path)
    # The first of four environments plays two of these games.
    assert lengths[0] < len(pictures) <= sum(lengths[:2])
    game = pictures[:, 150:300, 100:500]  # dark, and then bright
    assert game.mean(axis=(1, 2, 3)).max() > 200


def test_without_a_picture_there_is_no_video_and_a_reason(tmp_path):
    with Movie(tmp_path / "game.mp4", 30) as movie:
        pass
    assert movie.problem == "no game with pictures has begun" and not [*tmp_path.iterdir()]


def test_recording_does_not_change_the_games(cartpole, tmp_path):
    plain = played(cartpole)
    assert played(cartpole, video=str(tmp_path / "game.gif")) == plain


def test_a_gif_of_atari_has_its_colours_and_is_small(tmp_path):
    make_run(tmp_path, "BreakoutNoFrameskip-v4", width=44, height=44, num_action_repeats=2)
    path = tmp_path / "game.gif"
    found = played(tmp_path, video=str(path), test_num_episodes=1)["BreakoutNoFrameskip-v4"]
    pictures = frames(path)
    # At 7.5 pictures per second a GIF needs all of them, but may join equal ones in a row.
    assert 0.9 * found["lengths"][0] <= len(pictures) <= found["lengths"][0] + 2
    assert path.stat().st_size < 4000 * len(pictures) + 50_000
    game = pictures[-1][:, :340].astype(int)
    assert (np.ptp(game, axis=-1) > 100).mean() > 0.03


def test_a_gif_has_at_most_fifteen_pictures_per_second_and_one_minute(tmp_path):
    path = tmp_path / "long.gif"
    canvas = np.zeros((32, 32, 3), np.uint8)
    with Movie(path, 50) as movie:
        for index in range(3200):
            canvas[:] = index % 251
            movie.add(canvas)
    pictures = frames(path)
    assert 0.97 * 15 * 60 <= len(pictures) <= 15 * 60 + 1


def test_a_name_is_no_pattern_of_numbers(tmp_path):
    path = tmp_path / "50%d" / "100%d.gif"
    path.parent.mkdir()
    with Movie(path, 30) as movie:
        for _ in range(4):
            movie.add(np.zeros((32, 32, 3), np.uint8))
    assert not movie.problem and list(path.parent.iterdir()) == [path]


def test_what_a_killed_process_left_of_the_same_video_is_removed(tmp_path):
    name = "Catch temperature=[0]"
    left, other = tmp_path / f".{name}.77.mp4", tmp_path / ".Catch.77.mp4"
    for path in (left, other):
        path.touch()
        os.utime(path, (0, 0))
    with Movie(tmp_path / f"{name}.mp4", 30):
        pass
    assert list(tmp_path.iterdir()) == [other]


def test_an_interrupted_game_leaves_no_file_behind(tmp_path):
    with pytest.raises(KeyboardInterrupt), Movie(tmp_path / "game.mp4", 30) as movie:
        movie.add(np.zeros((32, 32, 3), np.uint8))
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["game.mp4", "game.gif"])
def test_a_full_disk_prevents_only_the_video(cartpole, tmp_path, capsys, name):
    path = tmp_path / name
    with files_limited_to(6000):
        evaluate(Settings(mode="test", logdir=str(cartpole), video=str(path)))
    printed = capsys.readouterr().out
    assert f"warning: {path} could not be written (ffmpeg could not write it" in printed
    assert "(first game)" not in printed and "mean" in printed
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_a_path_that_cannot_be_written_is_reported_before_anything_is_played(cartpole, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder.mp4").mkdir()
    assert "cannot write there" in refused(cartpole, video=str(tmp_path / "file" / "game.mp4"))
    assert "is a folder" in refused(cartpole, video=str(tmp_path / "folder.mp4"))


def test_a_level_without_pictures_is_reported(tmp_path):
    make_run(tmp_path, "tests.trainer.untrained:Uneven")
    assert "render mode" in refused(tmp_path, video=str(tmp_path / "game.mp4"))
    assert not (tmp_path / "game.mp4").exists()


def test_missing_libraries_of_mujoco_are_reported_before_anything_is_played(tmp_path, monkeypatch):
    def missing(self: Any, env: Any) -> Any:
        raise RuntimeError("ImportError: no EGL\nhere")

    monkeypatch.setattr(MujocoPictures, "picture", missing)
    make_run(tmp_path, "InvertedPendulum-v5")
    error = refused(tmp_path, video=str(tmp_path / "game.mp4"))
    assert "InvertedPendulum-v5 cannot be drawn here" in error and "no EGL here" in error


def test_games_with_continuous_actions_are_recorded(tmp_path):
    make_run(tmp_path / "a", "tests.trainer.untrained:Continuous")
    found = played(tmp_path / "a", video=str(tmp_path / "a.mp4"), test_num_episodes=1)
    pictures = frames(tmp_path / "a.mp4")
    assert len(pictures) == found["tests.trainer.untrained:Continuous"]["lengths"][0] + 1
    assert pictures_per_second(tmp_path / "a.mp4") == 10


def test_bars_are_the_policy_s_probabilities():
    spec = environments.spec("PongNoFrameskip-v4")
    rows = bars(spec, np.log([0.5, 0.1, 0.1, 0.1, 0.1, 0.1]), np.array(2))
    assert [row.name for row in rows[:3]] == ["NOOP", "FIRE", "RIGHT"]
    assert [row.stop for row in rows] == pytest.approx([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    assert [row.chosen for row in rows] == [False, False, True, False, False, False]
    assert rows[0].text == "50.0%"


def like(action_space: gymnasium.Space) -> EnvironmentSpec:
    seen = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    return EnvironmentSpec("level", seen, action_space, 1, 1, image=False)


def test_bars_of_action_values_reach_from_the_lowest_to_the_highest():
    spec = like(gymnasium.spaces.Discrete(4))
    rows = bars(spec, np.array([1.0, 3.0, FORBIDDEN, 2.0]), np.array(1), action_values=True)
    assert [row.stop for row in rows] == [0.0, 1.0, 0.0, 0.5]
    assert [row.text for row in rows] == ["1", "3", "–", "2"]
    assert [row.chosen for row in rows] == [False, True, False, False]


def test_bars_of_several_choices_add_up_to_one_each():
    rows = bars(like(gymnasium.spaces.MultiDiscrete([2, 3])), np.arange(5.0), np.array([0, 2]))
    assert [row.chosen for row in rows] == [True, False, False, False, True]
    assert sum(row.stop for row in rows[:2]) == pytest.approx(1)
    assert sum(row.stop for row in rows[2:]) == pytest.approx(1)


@pytest.mark.parametrize("endless", [np.inf, 1e30])
def test_bars_of_continuous_actions_reach_a_deviation_to_either_side(endless):
    space = gymnasium.spaces.Box(np.array([-2, 0]), np.array([2, endless]), dtype=np.float64)
    policy = np.array([0.5, 0.0, np.log(0.25), np.log(0.5)])
    bounded, open_ended = bars(like(space), policy, np.array([-2.0, 0.0]))
    # 0.5 of the way from the centre to the upper end is three quarters of the whole axis.
    assert (bounded.start, bounded.stop) == pytest.approx((0.75 - 0.125, 0.75 + 0.125))
    assert bounded.mark == 0.0
    assert (open_ended.start, open_ended.stop, open_ended.mark) == pytest.approx((0.25, 0.75, 0.5))


def test_pictures_of_any_size_fit_beside_the_panel():
    for height, width in ((210, 160), (3, 1000), (1000, 3), (84, 84), (400, 600), (1, 1)):
        fit = fitted(np.zeros((height, width, 3), np.uint8))
        assert fit.shape[0] <= 420 and fit.shape[1] <= 640
    board = Dashboard(like(gymnasium.spaces.Discrete(40)), "agent")
    drawn = board.draw(
        np.zeros((84, 84, 3), np.uint8),
        reward=-1e9,
        first=True,
        action=np.array(39),
        policy=np.zeros(40),
        value=1e9,
    )
    assert drawn.shape[0] % 16 == drawn.shape[1] % 16 == 0


def test_watching_needs_a_screen(cartpole, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    error = refused(cartpole, watch=True)
    assert "--watch" in error and "--video" in error
    monkeypatch.setenv("DISPLAY", ":no such screen")
    monkeypatch.setitem(os.environ, "SDL_VIDEODRIVER", "x11")
    assert "no window can be opened" in refused(cartpole, watch=True)


def test_a_window_shows_pictures_at_their_rate_and_can_be_closed(monkeypatch):
    import pygame

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    picture = np.zeros((48, 64, 3), np.uint8)
    picture[10, 20] = (10, 20, 30)
    with video.Window(100) as window:
        start = pygame.time.get_ticks()
        for _ in range(11):
            window.show(picture)
        assert pygame.time.get_ticks() - start >= 80
        surface = pygame.display.get_surface()
        assert surface is not None and surface.get_size() == (64, 48)
        assert surface.get_at((20, 10))[:3] == (10, 20, 30)
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        window.show(picture)
        assert pygame.display.get_surface() is None
        window.show(picture)
        assert pygame.display.get_surface() is None


def test_nothing_is_drawn_for_a_window_that_was_closed():
    nobody: Any = None
    window: Any = Namespace(is_open=False)
    world: Any = World()
    world.render = pytest.fail
    spectator = video.Spectator(nobody, lambda baseline: 0.0, None, window)
    spectator(world, world.reset(), nobody, np.zeros(1, int))
