"""Programs on a desktop: their files, their digits, and a real one that is played."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import cv2
import numpy as np
import psutil
import pytest

import environments
from environments import Remotes
from environments.names import RealTimeLevel
from environments.realtime import game_file, levels, messages, password
from environments.realtime.game_file import Box
from environments.realtime.messages import Message
from environments.remote.desktop import Desktop, free_port
from environments.remote.digits import Digits
from environments.remote.program import ProgramWorld, Screen, _on_desktop, _state
from environments.view import View
from tests.environments.realtime.remotes import await_end, remote
from user_error import EndedOutside, UserError

pytestmark = pytest.mark.xdist_group("remotes")

SANDBOX = Path(__file__).parents[3] / "sandbox"


@pytest.mark.parametrize("number", ["0", "7", "1234567890", "88"])
def test_digits_are_read_wherever_they_stand(number):
    strip = cv2.imread(str(SANDBOX / "racer_digits.png"))
    assert strip is not None
    ink = np.flatnonzero(np.diff(np.concatenate([[0], strip.any(axis=(0, 2)), [0]])))
    picture = np.zeros([60, 200, 3], np.uint8)
    left = 20
    for digit in map(int, number):
        one = strip[:, ink[2 * digit] : ink[2 * digit + 1]]
        picture[10 : 10 + len(one), left : left + one.shape[1]] = one
        left += one.shape[1] + 2
    read = Digits(Box(10, 5, 180, 40), SANDBOX / "racer_digits.png")
    assert read(picture) == float(number)
    assert read(255 - picture) == float(number)  # black on white
    picture[5:40, 5:12] = 255
    assert Digits(Box(0, 0, 60, 40), SANDBOX / "racer_digits.png")(picture) is None
    assert read(np.zeros_like(picture)) is None


def test_a_program_is_played_for_its_score():
    env = environments.make(
        f"vnc:{SANDBOX}/racer.yaml", 1, 1, num_action_repeats=3, width=25, height=30, colour=True
    )
    try:
        assert env.spec.action_space.n == 3  # type: ignore[attr-defined]
        assert env.reset().observation.shape == (1, 30, 25, 3)
        episodes: list[environments.Episode] = []
        rewards = 0.0
        while len(episodes) < 2 or not rewards:
            step = env.step(np.array([len(episodes) % 3]))
            rewards += float(step.reward[0])
            episodes += env.episodes()
        # A point for each car that was passed, and whole numbers only.
        returns = [episode.raw_return for episode in episodes]
        assert all(value >= 0 and value == int(value) for value in returns)
        assert all(episode.frames == 3 * episode.length for episode in episodes)
    finally:
        env.close()


def brightness(picture: np.ndarray) -> float | None:
    """A score that is seen wherever it is not dark."""
    return float(picture[0, 0, 0]) or None


def is_bright(picture: np.ndarray) -> bool:
    return bool(picture[0, 0, 0] > 100)


class Shown:
    """A desktop of which the test says what is on it."""

    changes = 0

    def __init__(self) -> None:
        self.bright = 7
        self.pressed: list[str] = []

    def picture(self) -> np.ndarray:
        return np.full([40, 80, 3], self.bright, np.uint8)

    def press(self, keys: list[str], click: tuple[int, int] | None) -> None:
        self.pressed += keys
        self.changes += 1


@pytest.fixture
def started(tmp_path):
    """Starts a program for a world without a desktop; what it has started ends with the test."""
    worlds = []
    usual: dict[str, object] = {"end": 600, "score": f"{__name__}:brightness"}

    def make(command: str, **entries: object) -> tuple[ProgramWorld, Shown]:
        file = tmp_path / "own.yaml"
        more = "".join(f"{name}: {value}\n" for name, value in (usual | entries).items())
        file.write_text(f"command: {command}\nwidth: 80\nheight: 40\nactions: [none, left]\n{more}")
        world, screen = ProgramWorld("own", game_file.read(str(file), View()), 0.0), Shown()
        world._screen = screen  # type: ignore[assignment]
        worlds.append(world)
        world._start()
        return world, screen

    yield make
    for world in worlds:
        world.close()


def test_a_game_that_ends_by_silence_begins_again_by_its_keys(started, monkeypatch):
    world, screen = started("sleep 600", reset="[tap space]")
    world.reset(time.sleep)
    before = world._process
    assert not world.frame([]).terminated
    world._scored_at -= 601
    assert world.frame([]).terminated
    world.reset(time.sleep)
    assert screen.pressed == ["space"] and not world.frame([]).terminated
    assert world._process is before


@pytest.mark.parametrize("shown", [[200, 200, 200, 3], [200, 200, 0, 0, 3], [200, 200, 3, 5]])
def test_a_game_that_ends_by_silence_does_not_begin_with_the_last_score(started, shown):
    """Whether the next one shows its own at once, later, or goes on with none for a while."""
    world, screen = started("sleep 600", reset="[tap space]")
    screen.bright = 200
    world.reset(time.sleep)
    world._scored_at -= 601
    assert world.frame([]).terminated
    left = iter(shown)

    def pause(seconds: float) -> None:
        screen.bright = next(left, 3)

    world.reset(pause)
    assert world._score == 3 and screen.pressed == ["space"]
    assert world.frame([]).reward == screen.bright - 3


@pytest.mark.parametrize("moves", [False, True])
def test_keys_that_a_window_misses_are_pressed_again(started, moves):
    """Whether or not the game moves while it is over."""
    world, screen = started(
        "sleep 600", reset="[tap space]", end=f"{__name__}:is_bright", starts_within_s=1.5
    )
    world.reset(time.sleep)
    screen.bright, before, heard = 200, world._process, []

    def press(keys: list[str], click: tuple[int, int] | None) -> None:
        heard.append(keys)
        screen.changes += moves
        if len(heard) == 3:
            screen.bright, screen.changes = 7, screen.changes + 1

    screen.press = press
    assert world.frame([]).terminated
    world.reset(time.sleep)
    assert heard == [["space"]] * 3 and not world.frame([]).terminated
    assert world._process is before


def test_a_game_that_stays_over_whatever_is_pressed_is_started_again(started):
    world, screen = started(
        "sleep 600", reset="[tap space]", end=f"{__name__}:is_bright", starts_within_s=0.3
    )
    world.reset(time.sleep)
    screen.bright, before = 200, world._process
    assert world.frame([]).terminated

    def pause(seconds: float) -> None:
        time.sleep(seconds)
        screen.bright = 200 if world._process is before else 7

    world.reset(pause)
    assert screen.pressed == ["space"] * 3 and world._process is not before


@pytest.mark.parametrize("score", ["12", float("nan"), [1]])
def test_a_score_that_is_no_number_is_refused(started, score, one_line):
    world, _ = started("sleep 600")
    world._read = lambda picture: score
    one_line(lambda: world.frame([]), "--game: own: ", f"score {score!r}; expected a number")


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32])
def test_scores_of_numpy_are_numbers_like_others(started, kind):
    world, _ = started("sleep 600")
    world.reset(time.sleep)
    shown = iter([kind(200), kind(190), kind(200)])
    world._read = lambda picture: next(shown)
    rewards = [world.frame([]).reward for _ in range(3)]
    sent = [Message(messages.REWARD, {"reward": one, "done": False}).encoded() for one in rewards]
    assert [messages.decoded(one).body["reward"] for one in sent] == [193, -10, 10]


def broken(picture: np.ndarray) -> float:
    raise IndexError("no such row")


@pytest.mark.parametrize("entry", ["score", "end"])
def test_a_function_of_a_file_that_fails_is_told_in_one_line(started, entry, one_line):
    world, _ = started("sleep 600", **{entry: f"{__name__}:broken"})
    told = f"--game: own: {entry}: {__name__}:broken has failed (IndexError: no such row)"
    one_line(lambda: world.reset(time.sleep), told)


def test_a_program_that_is_started_again_does_not_begin_with_the_old_score(started):
    world, screen = started("sleep 600")
    world.reset(time.sleep)
    world._score, before = 7.0, world._process
    shows = iter([7, 7, 0, 0, 3])

    def pause(seconds: float) -> None:
        screen.bright = next(shows)

    world.reset(pause)
    assert world._score == 3.0 and world._process is not before
    world.reset(lambda seconds: time.sleep(0.2))  # a score that never goes away
    assert world._score == 3.0


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("python -c 'raise SystemExit(\"no such map\")'", "code 1 .*no such map"),
        ("no-such-program", "code 127 .*no-such-program: No such file"),
    ],
)
def test_a_program_that_cannot_be_started_is_told_with_its_reason(started, command, told):
    world, screen = started(command)
    screen.bright = 0
    with pytest.raises(UserError, match=told) as caught:
        world.reset(time.sleep)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("launcher_ends", [False, True])
def test_what_a_program_has_started_ends_with_it(started, tmp_path, launcher_ends):
    world, screen = started("bash -c 'sleep 598 & sleep 599 & echo $! > pid; wait'")
    world.reset(time.sleep)
    until = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    child = psutil.Process(int((tmp_path / "pid").read_text()))
    if launcher_ends:
        assert world._process
        os.kill(world._process.pid, signal.SIGKILL)
        while not world.frame([]).terminated:
            assert time.monotonic() < until
    world.close()
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_last_points_count_though_the_game_is_over_or_the_program_has_ended(started):
    world, screen = started("sleep 600", end=f"{__name__}:is_bright")
    world.reset(time.sleep)
    seen = iter([8, 200, 200])  # while the score is looked at, the game goes on
    screen.picture = lambda: np.full([40, 80, 3], next(seen), np.uint8)
    assert world.frame([]).reward == 1 and world._score == 8
    frame = world.frame([])
    assert frame.reward == 192 and frame.terminated
    world, screen = started("sleep 600")
    world.reset(time.sleep)
    assert world._process
    os.kill(world._process.pid, signal.SIGKILL)
    until, screen.bright, total = time.monotonic() + 60, 9, 0.0
    while not (frame := world.frame([])).terminated:
        total += frame.reward
        assert time.monotonic() < until
    assert total + frame.reward == 2


def test_a_desktop_that_is_not_there_is_not_waited_for():
    with pytest.raises(EndedOutside, match="the desktop cannot be seen .*Connect call failed"):
        Screen("127.0.0.1", free_port("127.0.0.1"), "secret", 80, 40)


def test_a_program_is_seen_without_the_time_below_it_until_the_desktop_is_gone(tmp_path):
    secret = password.make(tmp_path / "p")
    desktop = Desktop(80, 42, "127.0.0.1", 0, tmp_path / "p", tmp_path)
    try:
        screen = Screen("127.0.0.1", desktop.port, secret, 60, 40)
        assert screen.picture().shape == (40, 60, 3)  # without the strip below, and what is beside
    finally:
        desktop.close()
    until = time.monotonic() + 60
    with pytest.raises(EndedOutside, match="the desktop cannot be seen any more"):
        while time.monotonic() < until:
            screen.picture()


def program_of(remote_pid: int, script: str) -> psutil.Process:
    found = [
        one
        for one in psutil.Process(remote_pid).children()
        if any(word.endswith(script) for word in one.cmdline())
    ]
    assert len(found) == 1
    return found[0]


def play_until(env, condition, action=1, seconds=150.0) -> None:
    """Plays a batch of one; what counts as spoilt is nothing that could be learned from."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        step = env.step(np.array([action]))
        if env.spoilt()[0]:
            env.saw_spoilt = True
        assert not (step.first[0] and step.reward[0])


def hanging_game(folder: Path, **entries: object) -> Path:
    """The file of a game without an end: what begins its next one starts a program anew, too."""
    shutil.copy(Path(__file__).parent / "hanging.py", folder)
    file = folder / "hanging.yaml"
    more = "".join(f"{name}: {value}\n" for name, value in entries.items())
    file.write_text(
        "command: python hanging.py\nwidth: 80\nheight: 40\nfps: 20\n"
        "score: tests.environments.realtime.hanging:score\nend: 600\n"
        "actions: [none, left, h]\nreset: [tap space]\n" + more
    )
    return file


def test_a_program_whose_name_is_no_utf_8_has_a_state(tmp_path):
    named = tmp_path / os.fsdecode(b"\xff")
    named.symlink_to(str(shutil.which("sleep")))
    with subprocess.Popen(["sleep", "60"], executable=named) as process:
        try:
            assert _state(process.pid) in ("S", "R", "D")
        finally:
            process.kill()


def test_a_program_that_ignores_term_does_not_outlive_a_remote_that_was_killed(tmp_path):
    file = hanging_game(tmp_path)
    (tmp_path / "deaf.sh").write_text("trap '' TERM\nwhile :; do sleep 0.1; done\n")
    file.write_text(file.read_text().replace("python hanging.py", "bash deaf.sh"))
    with remote(f"--game={file}") as served:
        until, program = time.monotonic() + 60, program_of(served.process.pid, "deaf.sh")
        while not program.children():  # it has begun to ignore
            assert time.monotonic() < until
        served.process.kill()
        await_end(program)


def test_a_program_that_is_stopped_is_noticed_and_its_remote_replaced(tmp_path):
    told: list[str] = []
    file = hanging_game(tmp_path)
    env = environments.make(f"vnc:{file}", 1, 1, remotes=Remotes(say=told.append))
    try:
        env.reset()
        play_until(env, lambda: env._playing[0])  # type: ignore[attr-defined]
        keeper = env._keepers[0]  # type: ignore[attr-defined]
        before = program_of(keeper._source.pid, "hanging.py")
        # Only the program: the strip with the time is drawn on and on.
        os.kill(before.pid, signal.SIGSTOP)
        play_until(env, lambda: told[1:])
        assert "environment 0" in told[1] and "its program was stopped" in told[1]
        assert env.saw_spoilt  # type: ignore[attr-defined]
        play_until(env, lambda: not env._playing[0])  # type: ignore[attr-defined]
        play_until(env, lambda: env._playing[0])  # type: ignore[attr-defined]
        assert program_of(keeper._source.pid, "hanging.py").pid != before.pid
        assert not before.is_running()
        assert ["look: vncviewer" in one for one in told] == [True, False, True]
    finally:
        env.close()


def test_a_program_that_hangs_is_noticed_by_its_keys_and_started_again_elsewhere(tmp_path):
    file = hanging_game(tmp_path, still_s=1)
    told: list[str] = []
    with remote(f"--game={file}") as served:
        before = program_of(served.process.pid, "hanging.py")
        places = Remotes([str(served.address)], served.password_file, say=told.append)
        env = environments.make(f"vnc:{file}", 1, 1, remotes=places)
        try:
            env.reset()
            for action in [1] * 10 + [0] * 40:
                env.step(np.array([action]))
            assert not told and before.is_running()  # it changes all the time
            play_until(env, lambda: told, action=2)
            assert "keys change nothing in its picture for 1 s" in told[0]
            # The remote itself goes on; the keys of a reset have no effect, so it starts anew.
            play_until(env, lambda: env._playing[0], action=0)  # type: ignore[attr-defined]
            assert program_of(served.process.pid, "hanging.py").pid != before.pid
            assert served.process.poll() is None
        finally:
            env.close()


def test_what_is_wrong_with_a_file_is_told(tmp_path, one_line):
    right = (SANDBOX / "racer.yaml").read_text().replace("racer_digits", f"{SANDBOX}/racer_digits")
    file = tmp_path / "game.yaml"
    file.write_text(right)
    assert game_file.read(str(file), View()).reset[0].tapped == ("space",)
    (tmp_path / "own.yaml").write_text("[none, left, up]")
    file.write_text(right.replace("[none, left, right]", "own.yaml"))
    assert len(game_file.read(str(file), View()).actions) == 3
    level = RealTimeLevel(str(tmp_path / "none.yaml"))
    one_line(lambda: levels.game(level, View()), f"--level_name=vnc:{tmp_path}/none.yaml: it")
    for old, new, told in (
        ("width: 200", "", "width is missing"),
        ("fps: 30", "fps: -1", "expected a number above 0"),
        ("fps: 30", "still_s: -1", "still_s: -1: expected seconds"),
        ("fps: 30", "still_s: .inf", "still_s: inf: expected seconds"),
        ("fps: 30", "fps: .nan", "fps: nan: expected a number above 0, at most 240"),
        ("fps: 30", "fps: 1e9", "expected a number above 0, at most 240"),
        ("fps: 30", "fps: true", "fps: True: expected a number above 0"),
        ("fps: 30", "still_s: true", "still_s: True: expected seconds"),
        ("fps: 30", "fps: 30\nfps: 20", "it cannot be read (fps is given twice)"),
        ("width: 200", "width: .inf", "width: inf: expected a whole number above 0, at most 4096"),
        ("width: 200", "width: 200.5", "width: 200.5: expected a whole number above 0"),
        (
            "height: 240",
            "height: 4096",
            "height: 4096: expected a whole number above 0, at most 4094",
        ),
        (
            "reset: [tap space]",
            "reset: ['click 5,240']",
            "'click 5,240': expected a point of the 200 × 240",
        ),
        ("fps: 30", "speed: 30", "there is no entry 'speed'"),
        ("end: sandbox.racer:is_over", "end: never", "end: 'never'"),
        ("end: sandbox.racer:is_over", "end: true", "end: True: expected package.module:function"),
        ("[0, 0, 200, 24]", "[0, 0]", "score"),
        ("[0, 0, 200, 24]", "[.inf, 0, 1, 1]", "score"),
        ("fps: 30", f"fps: {'[' * 3000}", "it is nested too deeply"),
        ("[0, 0, 200, 24]", "[10, 0, 200, 24]", "expected left, top"),
        ("[0, 0, 200, 24]", "[0, 0, 0, 24]", "of the 200 × 240 pixels"),
        ("command: python racer.py", "command: python 'racer.py", "No closing quotation"),
        ("command: python racer.py", "command: ''", "expected a program"),
        ("command: python racer.py", "command: [python, a.py]", "['python', 'a.py']: expected a"),
        ("reset: [tap space]", "reset: 5", "reset: 5: expected a list"),
        ("reset: [tap space]", "reset: tap space", "expected a list"),
        ("reset: [tap space]", "reset: 2026-13-01", "cannot be read (month must be in 1..12"),
        ("racer_digits", "digits", "there is no picture"),
        ("left, right", "lleft", "lleft"),
    ):
        file.write_text(right.replace(old, new))
        one_line(lambda: game_file.read(str(file), View()), "--game=", told)
    file.write_text(right.replace("end: sandbox.racer:is_over", "end: .racer:is_over"))
    game = game_file.read(str(file), View())
    one_line(lambda: ProgramWorld("own", game, 0.0), "--game: end: .racer:is_over: there is no")


def test_a_program_does_not_find_the_user_s_own_screen():
    found = _on_desktop({"DISPLAY": ":7", "WAYLAND_DISPLAY": "wayland-0", "HOME": "/home/ann"})
    assert found["DISPLAY"] == ":7" and found["HOME"] == "/home/ann"
    assert "WAYLAND_DISPLAY" not in found and found["SDL_VIDEODRIVER"] == "x11"
