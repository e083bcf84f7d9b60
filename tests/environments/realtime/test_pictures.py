"""What a desktop shows, and what agents see of it."""

import asyncio
import time

import cv2
import numpy as np
import psutil
import pytest

import environments
from environments.realtime import password
from environments.realtime.link import Link, Snapshot
from environments.remote.desktop import PROGRAM
from tests.environments.realtime.remotes import remote

pytestmark = pytest.mark.xdist_group("remotes")


@pytest.mark.parametrize(("fps", "rate"), [("20", "60"), ("99.5", "100")])
def test_a_desktop_may_show_each_frame_of_its_world(fps, rate):
    with remote("--level_name=Catch-v0", f"--fps={fps}") as served:
        [command] = [
            one.cmdline()
            for one in psutil.Process(served.process.pid).children()
            if one.cmdline()[0] == PROGRAM
        ]
    assert command[command.index("-FrameRate") + 1] == rate


def test_a_level_that_draws_with_pygame_is_on_its_own_desktop_only(monkeypatch):
    """Whatever screen the user has."""
    monkeypatch.setenv("DISPLAY", ":31999")
    with remote("--level_name=CartPole-v1", "--fps=20") as served:

        async def look() -> tuple[np.ndarray, float | None]:
            link = Link(served.address, 0.0)
            try:
                await link.connect(password.read(served.password_file, "--password_file"))
                reading = asyncio.create_task(link.run())
                until = time.monotonic() + 30
                first: float | None = None
                while time.monotonic() < until:
                    await asyncio.sleep(0.05)
                    drawn = link.take().drawn
                    first = first or drawn
                    if first and drawn and drawn > first:
                        break
                reading.cancel()
                return link.take().picture, drawn
            finally:
                await link.close()

        picture, drawn = asyncio.run(look())
    assert drawn is not None and len(np.unique(picture)) > 2


@pytest.mark.parametrize(("level", "brighter"), [("PongNoFrameskip-v4", True), ("Catch-v0", False)])
def test_of_an_atari_game_agents_see_the_brighter_of_two_pictures(level, brighter, monkeypatch):
    taken: list[Snapshot] = []
    take = Link.take

    def noted(link: Link) -> Snapshot:
        taken.append(take(link))
        return taken[-1]

    monkeypatch.setattr(Link, "take", noted)
    env = environments.make(f"vnc:{level}", 1, 1, width=160, height=160, num_action_repeats=4)
    step, moved = env.reset(), 0
    while moved < 5:
        step = env.step(np.zeros(1, np.int32))
        if step.first[0]:
            continue
        newest, before = (cv2.cvtColor(one, cv2.COLOR_RGB2GRAY) for one in taken[-1][:2])
        seen = np.maximum(newest, before) if brighter else newest
        expected = cv2.resize(seen, (160, 160), interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(step.observation[0, :, :, 0], expected)
        moved += bool((newest != before).any())
    env.close()
