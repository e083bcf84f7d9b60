"""Playing by hand: keys, wait mode, the page in a real browser, and what is kept."""

import contextlib
import dataclasses
import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest

import experiment
from environments import EnvironmentStep, Episode, VectorEnvironment
from environments.dream import Dreamt
from environments.realtime import actions
from tests import browser
from tests.pictures import coloured, frames
from tests.world_models.catch_model import flags, played, small, spec_of
from trainer import build
from trainer.settings.config import Settings
from trainer.storage.played import Stored, check_looks, looks_of, read_all
from world_models import play
from world_models.networks import Sizes
from world_models.player import keys
from world_models.player.recording import Recording
from world_models.player.server import served
from world_models.player.session import Session
from world_models.player.sides import DreamedGame, RealGame

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("simple")  # share the finished run
ATARI = ("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "UPRIGHT", "UPFIRE", "RIGHTFIRE")


class Shifted:
    """A model of Catch that says the picture stays."""

    sizes = Sizes(10, 10, 1, 3, frames=2)

    def initial_state(self, count):
        return np.zeros([count, 0])

    def predict(self, stacks, actions, state):
        return Dreamt(stacks[..., -1:], np.ones(1, np.float32), np.array([False]), state)


@pytest.fixture
def session():
    settings = small(envs_per_actor=1)
    real = RealGame(lambda n: build.actor_environment(settings, 0, n), rendered=False)
    made = Session(real, DreamedGame(Shifted()), zoom=2, wait=True)  # type: ignore[arg-type]
    yield made
    real.close()


class Appearing(VectorEnvironment):
    """A world in real time that is seen, larger than its agent sees it, after three steps."""

    num_envs, pictures_per_second = 1, 20.0

    def __init__(self) -> None:
        self.spec, self.steps = spec_of(small()), 0

    def reset(self) -> EnvironmentStep:
        return self._row()

    def step(self, actions: np.ndarray) -> EnvironmentStep:
        self.steps += 1
        return self._row()

    def _row(self) -> EnvironmentStep:
        seen, zero = np.zeros([1, 10, 10, 1], np.uint8), np.zeros(1, np.float32)
        return EnvironmentStep(seen, zero, zero > 0, zero == 0)

    def episodes(self) -> list[Episode]:
        return []

    def spoilt(self) -> np.ndarray:
        return np.array([self.steps < 3])

    def render(self, index: int) -> np.ndarray | None:
        return None if self.steps < 3 else np.full([40, 60, 3], 7, np.uint8)

    def close(self) -> None:
        pass


def test_a_world_in_real_time_is_shown_once_it_is_there():
    made: list[Appearing] = []

    def make(number: int) -> Appearing:
        made.append(Appearing())
        return made[-1]

    real = RealGame(make, rendered=True)
    session = Session(real, None, zoom=1, wait=True)
    for _ in range(2):
        number, picture, _ = session.shown(-1, 0.0)
        assert picture.shape == (40, 60, 3) and real.steps == 0
        session.press("r")
    assert [one.steps for one in made] == [3, 3, 3]


def test_keys_make_the_actions_of_a_game():
    spec = spec_of(small())
    assert [keys.action_of(held, spec, 3) for held in (["a"], [], ["d"], ["2"])] == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("held", "meaning"),
    [
        ("", "NOOP"),
        ("w", "UP"),
        ("wd", "UPRIGHT"),
        ("wa", "LEFT"),
        ("s", "NOOP"),
        (["space"], "FIRE"),
        (["w", "space"], "UPFIRE"),
        (["w", "d", "space"], "RIGHTFIRE"),
    ],
)
def test_keys_together_make_the_nearest_action_of_an_atari_game(held, meaning):
    spec = spec_of(small())
    atari = dataclasses.replace(spec, action_meanings=ATARI)
    assert ATARI[keys.action_of(list(held), atari, len(ATARI))] == meaning


@pytest.mark.parametrize(
    ("lines", "held", "action"),
    [
        (["none", "up", "down"], "", 0),
        (["none", "up", "down"], "w", 1),
        (["none", "up", "down"], "s", 2),
        (["none", "up", "down"], "d", 0),
        (["none", "up", "down"], "2", 2),
        (["none", "tap space"], ["space"], 1),
        (["none", "tap space"], "d", 0),
        (["click 1,1", "left", "none"], "", 2),
        (["left", "none", "right+space", "right"], ["d", "space"], 2),
        (["none", "z", "tap return"], "z", 1),
    ],
)
def test_keys_are_those_that_a_level_names(lines, held, action):
    own = tuple(one.keys for one in actions.parse(lines, "test"))
    spec = dataclasses.replace(spec_of(small()), keys=own)
    assert keys.action_of(list(held), spec, len(lines)) == action
    assert keys.played(spec) >= {"w", "a", "s", "d", "space", "0"}
    assert ("z" in keys.played(spec)) == ("z" in lines)


def test_keys_that_do_something_at_once_are_not_those_of_a_level():
    spec = dataclasses.replace(spec_of(small()), keys=(frozenset(), frozenset("q")))
    assert "q" not in keys.played(spec)


def test_while_it_waits_a_key_is_a_step(session):
    session.tick()
    assert session.real.steps == 0
    session.press("a")
    session.release("a")
    session.press("n")
    assert session.real.steps == session.model.steps == 2
    session.press("c")  # no more
    session.tick()
    assert session.real.steps == 3


def test_the_model_becomes_like_the_real_game(session):
    session.press("n")
    assert not np.array_equal(session.model.picture, session.real.picture)
    session.press("x")
    assert np.array_equal(session.model.picture, session.real.picture)
    assert session.model.total == 0 and session.model.steps == 0


def test_a_reset_starts_another_game(session):
    session.press("n")
    session.press("r")
    assert session.real.steps == 0 and session.real.total == 0
    assert np.array_equal(session.model.picture, session.real.picture)


def test_after_an_episode_both_start_again(session):
    for _ in range(9):
        session.press("n")
    assert session.real.over and abs(session.real.total) == 1 and session.model.total == 9
    session.press("n")
    assert session.real.steps == session.model.steps == 0


def recorded(folder: Path) -> tuple[Recording, Session, RealGame]:
    settings = small(envs_per_actor=1)
    real = RealGame(lambda n: build.actor_environment(settings, 0, n), rendered=False)
    looks = looks_of(build.looks(settings))
    recording = Recording(folder / "played", 10, folder / "play", "Catch-v0", looks)
    return recording, Session(real, None, 2, wait=True, recording=recording), real


def test_what_was_played_is_kept(tmp_path):
    recording, session, real = recorded(tmp_path)
    for _ in range(12):
        session.press("d")
    recording.close()
    real.close()
    assert len(frames(recording.path)) >= 12
    steps = [json.loads(one) for one in recording.path.with_suffix(".jsonl").open()]
    assert [one["action"] for one in steps[1:]] == [2] * 12
    assert sum(one["first"] for one in steps) == 2
    [stored] = read_all(tmp_path / "play", "Catch-v0")
    assert stored.part.steps == 11 and stored.about["by"] == "a person"
    assert stored.about["lengths"] == [9] and abs(stored.about["returns"][0]) == 1
    assert stored.about["unfinished_lengths"] == [2]


def test_a_game_is_kept_with_all_of_its_lives(tmp_path):
    recording = Recording(tmp_path / "played", 10, tmp_path / "play", "Catch-v0")

    def add(first: bool, died: bool, ended: Sequence[Episode] | None = ()) -> None:
        row = EnvironmentStep(
            np.zeros([1, 10, 10, 1], np.uint8),
            np.array([float(not first)], np.float32),
            np.array([died]),
            np.array([first]),
        )
        recording.add(row, 0, ended)

    add(True, False, None)
    add(False, True)  # a life
    add(True, False)
    add(False, True, [Episode(0, 2.0, 2, 8)])
    add(True, False)
    add(False, True)
    add(True, False)
    add(False, False)
    recording.close()
    [stored] = read_all(tmp_path / "play", "Catch-v0")
    assert (stored.about["returns"], stored.about["lengths"]) == ([2.0], [2])
    assert (stored.about["unfinished_returns"], stored.about["unfinished_lengths"]) == ([2.0], [2])


def test_long_play_is_stored_in_parts_that_lose_no_step(tmp_path, monkeypatch):
    monkeypatch.setattr("world_models.player.recording.ROWS_OF_PART", 7)
    recording, session, real = recorded(tmp_path)
    for _ in range(25):
        session.press("d")
    assert len(recording.parts) == 3  # on disk before the session ends
    recording.close()
    real.close()
    stored = read_all(tmp_path / "play", "Catch-v0")
    rows = np.concatenate([one.part.action[1:, 0] for one in stored])
    assert len(rows) == 25 and sum(one.part.steps for one in stored) == 23
    assert [length for one in stored for length in one.about["lengths"]] == [9, 9]


def test_what_ends_the_video_does_not_end_the_game(tmp_path):
    recording, session, real = recorded(tmp_path)
    session.press("d")
    [encoder] = [one for one in psutil.Process().children() if "ffmpeg" in one.name()]
    encoder.kill()  # as it does itself where it cannot write
    encoder.wait()
    for _ in range(10):
        session.press("d")
    assert session.real.steps == 1 and recording.error
    recording.close()
    real.close()


def test_a_person_teaches_a_model_and_a_replay(tmp_path, capsys):
    recording, session, real = recorded(tmp_path)
    for _ in range(40):
        session.press("d")
    recording.close()
    real.close()
    assert experiment.main(flags(tmp_path, phase="model")) == 0
    learner = {
        "algorithm": "dqn",
        "level_name": "Catch-v0",
        "agent_name": "ResNetAgent",
        "channels": "4,4,4",
        "width": 10,
        "height": 10,
        "replay_played": tmp_path / "play",
        "replay_warm_up": 30,
        "replay_steps": 2000,
        "logdir": tmp_path / "dqn",
        "total_environment_frames": 60,
    }
    words = [f"--{name}={value}" for name, value in learner.items()]
    assert experiment.main(words) == 0
    said = capsys.readouterr().out
    assert "36 agent steps of" in said and "0 agent steps are played before" in said
    learner |= {"width": 12, "logdir": tmp_path / "other"}
    assert experiment.main([f"--{name}={value}" for name, value in learner.items()]) == 2
    assert "the level's are [10, 12, 1]" in capsys.readouterr().err
    learner |= {"width": 10, "crop": "0,0,9,9"}
    assert experiment.main([f"--{name}={value}" for name, value in learner.items()]) == 2
    assert "has play with --crop=, and this command has --crop=0,0,9,9" in capsys.readouterr().err


def test_play_of_earlier_versions_says_nothing_of_its_looks(tmp_path):
    settings = small()
    stored = [Stored(played(settings), {"level_name": "Catch-v0"})]
    check_looks(stored, spec_of(settings), looks_of(build.looks(settings)), tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--level_name=Catch-v0", "--width=12"], "the level's are [84, 12, 1]"),
        (
            ["--level_name=Catch-v0", "--width=10", "--height=10", "--num_action_repeats=2"],
            "has play with --num_action_repeats=1, and this command has --num_action_repeats=2",
        ),
        (["--level_name=PongNoFrameskip-v4"], "is play of Catch-v0"),
    ],
)
def test_only_play_that_fits_a_folder_is_recorded_there(
    tmp_path, words, message, monkeypatch, capsys
):
    recording, session, real = recorded(tmp_path)
    for _ in range(3):
        session.press("d")
    recording.close()
    real.close()
    monkeypatch.setattr("world_models.play._tick", lambda *given: None)
    before = {*tmp_path.rglob("*")}
    assert play.main([*words, "--record", "--browser", f"--logdir={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1
    assert {*tmp_path.rglob("*")} == before


def test_play_is_recorded_with_every_look_of_a_learner(tmp_path, monkeypatch, capsys):
    def play_three(session: Session, fps: float) -> None:
        for key in "addq":
            session.press(key)

    monkeypatch.setattr("world_models.play._tick", play_three)
    words = ["--level_name=Catch-v0", "--level_fps=7", "--action_set=arrows"]
    more = ["--record", "--wait", "--browser", f"--logdir={tmp_path}"]
    assert play.main([*words, *more]) == 0
    learner = Settings(level_name="Catch-v0", fps=7.0, action_set="arrows")
    stored = read_all(tmp_path / "play", "Catch-v0")
    check_looks(stored, build.level_spec(learner), looks_of(build.looks(learner)), tmp_path)
    capsys.readouterr()
    assert play.main([*words[:2], *more]) == 2
    assert "has play with --action_set=arrows" in capsys.readouterr().err


@pytest.mark.xdist_group("remotes")
@pytest.mark.timeout(100)
@pytest.mark.skipif(shutil.which("Xtigervnc") is None, reason="needs TigerVNC")
def test_a_world_in_real_time_is_played_at_its_own_pace(tmp_path, monkeypatch):
    tick, paces = play._tick, []

    def ticking(session: Session, fps: float) -> None:
        def play_some() -> None:
            session.press("c")
            while session.real.steps < 3 and not session.header()["waits"] and not session.ended:
                session.shown(session.number, 1.0)
            session.press("q")

        paces.append(fps)
        thread = threading.Thread(target=play_some)
        thread.start()
        tick(session, fps)
        thread.join()

    monkeypatch.setattr(play, "_tick", ticking)
    words = ["--level_name=vnc:Catch-v0", "--level_fps=6", "--num_action_repeats=2", "--record"]
    assert play.main([*words, "--browser", f"--logdir={tmp_path}"]) == 0
    [stored] = read_all(tmp_path / "play", "vnc:Catch-v0")
    assert paces == [3] and stored.part.steps >= 3


def test_strangers_and_other_sites_get_nothing(session):
    with served(session, 0) as address:
        base = address.rsplit("/", 2)[0]
        for url, headers in (
            (f"{base}/", {}),
            (f"{base}/wrong/", {}),
            (address, {"Host": "evil.example:80"}),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(url, headers=headers))
            assert refused.value.code == 404


@contextlib.contextmanager
def playing(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and the address of its page."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "world_models.play", "--browser", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        line = next(line for line in process.stdout if "Play at" in line)
        yield process, line.split()[2]
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(browser.find() is None, reason="needs Chromium")
def test_a_models_game_is_played_by_keyboard_in_a_browser_and_survives_a_kill(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy, symlinks=True)
    before = len(read_all(copy / "play", "Catch-v0"))
    words = [f"--logdir={copy}", "--record", "--wait"]
    with playing(*words) as (process, address), browser.Browser() as tab:
        tab.open(address)
        tab.wait_for("document.getElementById('picture').naturalWidth > 0")
        assert tab.evaluate("document.getElementById('names').innerText").split() == [
            "model",
            "real",
            "difference",
        ]
        for key in ("d", "ArrowLeft", "n"):
            tab.press(key)
        tab.wait_for("document.querySelector('#real td:nth-child(4)').textContent === '3'")
        steps = tab.evaluate("document.querySelector('#model td:nth-child(4)').textContent")
        assert steps in ("1", "2", "3")  # this model may say that the game is over
        assert tab.evaluate("document.getElementById('state').textContent") == "waits for keys"
        tab.screenshot(tmp_path / "player.png")
        tab.press("c")  # on by itself: over 100 steps
        tab.wait_for("document.getElementById('state').textContent.startsWith('action')")
        until = time.monotonic() + 60
        while len(read_all(copy / "play", "Catch-v0")) == before:
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.2)
        process.kill()
        process.wait()
        tab.wait_for(
            "document.getElementById('state').textContent === 'the player does not answer'"
        )
    [video] = (copy / "played").glob("*.mp4")
    steps = [json.loads(one) for one in video.with_suffix(".jsonl").open()]
    assert [one["action"] for one in steps[1:4]] == [2, 0, 1] and len(steps) > 100
    until = time.monotonic() + 20
    while len(frames(video)) < 90:  # its own program writes the end
        assert time.monotonic() < until
        time.sleep(0.5)
    assert read_all(copy / "play", "Catch-v0")[-1].part.steps > 80
    assert coloured(tmp_path / "player.png") > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected --logdir"),
        (["--level_name=Catch-v0", "--record"], "give --logdir"),
        (["--logdir=RUN", "--width=20"], "--width is for --level_name"),
        (["--logdir=RUN", "--level_name=Catch-v0"], "is a run, which has its own level"),
        (["--level_name=Catch-v0,PongNoFrameskip-v4"], "expected one level"),
        (["--level_name=Pendulum-v1"], "keys can only choose one among several"),
        (["--level_name=dummy:16-100"], "--level_name=dummy:16-100 draws no pictures"),
        (["--model_bundle=zoo:catch"], "is no world model"),
        (["--logdir=RUN", "--level_fps=5"], "--level_fps is for --level_name"),
        (["--level_name=vnc:Catch-v0", "--wait"], "--wait: vnc:Catch-v0 goes on by itself"),
        (["--level_name=vnc:Catch-v0", "--fps=5"], "--fps=5: vnc:Catch-v0 goes on by itself"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_line(run, words, message, capsys):
    assert play.main([word.replace("RUN", str(run)) for word in words]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1


def test_the_real_game_of_a_run_is_played_alone(run, tmp_path, monkeypatch, capsys):
    """With keys that come over the page's own requests."""
    done = []

    def play_three(session: Session, fps: float) -> None:
        assert session.model is None
        for key in "addq":
            session.press(key)
        done.append(session.header()["real"]["step"])

    monkeypatch.setattr("world_models.play._tick", play_three)
    words = [f"--logdir={run}", "--real_only", "--wait", "--browser", f"--videos={tmp_path}"]
    assert play.main(words) == 0
    assert done == [3]
    assert "What was shown" in capsys.readouterr().out
    assert len([*tmp_path.glob("*.jsonl")]) == 1
