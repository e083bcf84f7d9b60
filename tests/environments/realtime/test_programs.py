"""Programs on a desktop: their files, their digits, and a real one that is played."""

from pathlib import Path

import cv2
import numpy as np
import pytest

import environments
from environments.realtime import game_file
from environments.realtime.game_file import Box
from environments.remote.digits import Digits

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
    finally:
        env.close()


def test_what_is_wrong_with_a_file_is_told(tmp_path, one_line):
    right = (SANDBOX / "racer.yaml").read_text().replace("racer_digits", f"{SANDBOX}/racer_digits")
    file = tmp_path / "game.yaml"
    file.write_text(right)
    assert game_file.read(str(file)).reset[0].tapped == ("space",)
    for old, new, told in (
        ("width: 200", "", "width is missing"),
        ("fps: 30", "fps: -1", "expected a number above 0"),
        ("fps: 30", "speed: 30", "there is no entry 'speed'"),
        ("end: sandbox.racer:is_over", "end: never", "end: 'never'"),
        ("[0, 0, 200, 24]", "[0, 0]", "score"),
        ("racer_digits", "digits", "there is no picture"),
        ("left, right", "lleft", "lleft"),
    ):
        file.write_text(right.replace(old, new))
        one_line(lambda: game_file.read(str(file)), "--game=", told)
