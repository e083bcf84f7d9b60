"""Pong whose actions come late, and whose steps differ in length, is Pong."""

import ale_py  # noqa: F401  (registers its games)
import gymnasium
import numpy as np
import pytest


@pytest.mark.parametrize("late", [0, 1, 2, 4])
@pytest.mark.parametrize("brighter", [False, True])
def test_an_action_lasts_four_frames_and_begins_late(late, brighter):
    game = gymnasium.make(
        "ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0, obs_type="grayscale"
    )
    env = gymnasium.make("sandbox.late_pong:LatePong-v0", late=late, brighter=brighter)
    _, info = env.reset(seed=3)
    _, begun = game.reset(seed=3)
    for _ in range(info["episode_frame_number"] - begun["episode_frame_number"]):
        game.step(0)
    before, scored = 0, 0.0
    for action in np.random.default_rng(1).integers(0, 6, 120).tolist():
        seen, reward, *_ = env.step(action)
        frames = [game.step(before if index < late else action) for index in range(4)]
        shown = np.maximum(frames[-2][0], frames[-1][0]) if brighter else frames[-1][0]
        np.testing.assert_array_equal(seen[..., 0], shown)
        assert reward == sum(float(frame[1]) for frame in frames)
        before, scored = action, scored + abs(reward)
    assert scored  # so that rewards have been compared
    env.close()
    game.close()


def test_some_steps_are_a_frame_shorter_or_longer():
    env = gymnasium.make("sandbox.late_pong:LatePong-v0", uneven=0.5)
    _, info = env.reset(seed=3)
    lengths = []
    for _ in range(400):
        before = info["episode_frame_number"]
        *_, info = env.step(0)
        lengths.append(info["episode_frame_number"] - before)
    env.close()
    counts = {length: lengths.count(length) for length in set(lengths)}
    assert set(counts) == {3, 4, 5}
    assert abs(counts[4] - 200) < 50 and abs(counts[3] - counts[5]) < 50
