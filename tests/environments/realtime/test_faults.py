"""What happens to remotes elsewhere: one is stopped for 20 s, one is cut off from the network."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import pytest

import environments
from environments import Remotes, VectorEnvironment
from environments.realtime import password
from tests import namespaces
from tests.environments.realtime.remotes import Remote, remote
from tests.namespaces import Bridge, Namespace

pytestmark = [
    pytest.mark.extras,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("remotes"),
]

CATCH = ("--level_name=Catch-v0", "--fps=20")
STOPPED_S = 20.0


class Play:
    """Two environments: the first one's remote has the fault, the other's has none."""

    def __init__(self, remotes: list[Remote], file: str) -> None:
        self.told: list[str] = []
        self.ended = np.zeros(2, int)
        self.spoilt = np.zeros(2, bool)
        addresses = [str(one.address) for one in remotes]
        self.env: VectorEnvironment = environments.make(
            "vnc:Catch-v0", 2, 1, fps=20, width=10, height=10,
            remotes=Remotes(addresses, file, say=self.told.append),
        )  # fmt: skip
        self.env.reset()

    def until(self, condition: Callable[[], bool], seconds: float = 200.0) -> None:
        """Plays until then."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.told
            self.env.step(np.ones(2, int))
            self.spoilt |= self.env.spoilt()
            for episode in self.env.episodes():
                self.ended[episode.environment] += 1

    def count(self) -> None:
        """Counts anew."""
        self.ended[:], self.spoilt[:] = 0, False
        self.told.clear()


@contextlib.contextmanager
def playing(remotes: list[Remote], file: str) -> Iterator[Play]:
    play = Play(remotes, file)
    try:
        play.until(lambda: bool((play.ended > 1).all()))
        play.count()
        yield play
    finally:
        play.env.close()


def test_a_remote_that_is_stopped_for_20_s_is_reported_and_comes_back(tmp_path):
    password.make(tmp_path / "p")
    own = (*CATCH, f"--password_file={tmp_path / 'p'}")
    with remote(*own) as first, remote(*own) as second, \
            playing([first, second], str(tmp_path / "p")) as play:  # fmt: skip
        whole = [first.process.pid, *(
            one.pid for one in psutil.Process(first.process.pid).children(recursive=True)
        )]  # fmt: skip
        for pid in whole:
            os.kill(pid, signal.SIGSTOP)
        try:
            until = time.monotonic() + STOPPED_S
            play.until(lambda: bool(play.told))
            assert "environment 0" in play.told[0] and "no new picture" in play.told[0]
            assert play.spoilt[0]
            play.ended[0] = 0  # one may have ended just before
            play.until(lambda: time.monotonic() > until)
        finally:
            for pid in whole:
                os.kill(pid, signal.SIGCONT)
        assert play.ended[1] > 0 and not play.ended[0]
        assert not any("environment 1" in line for line in play.told)
        # Tried again and again, after growing pauses.
        assert [line for line in play.told if "next try in 1 s" in line]
        play.until(lambda: play.ended[0] > 1)
        assert first.process.poll() is None


@pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing())
def test_a_remote_behind_a_cut_link_is_reported_and_found_again(tmp_path):
    password.make(tmp_path / "p")
    own = (*CATCH, f"--password_file={tmp_path / 'p'}")
    bridge = Bridge()
    try:
        hosts: list[Namespace] = [bridge.add(), bridge.add()]
        with contextlib.ExitStack() as stack:
            remotes = [
                stack.enter_context(remote(*own, f"--host={host.ip}", inside=host.inside))
                for host in hosts
            ]
            with playing(remotes, str(tmp_path / "p")) as play:
                hosts[0].unplug()  # silently: no packet comes any more
                play.until(lambda: bool(play.told))
                assert "environment 0" in play.told[0] and "no new picture" in play.told[0]
                assert play.spoilt[0]
                play.ended[0] = 0  # one may have ended just before
                play.until(lambda: len(play.told) > 1 and bool(play.ended[1] > 1))
                assert not any("environment 1" in line for line in play.told)
                assert not play.ended[0]
                hosts[0].plug()
                play.until(lambda: bool(play.ended[0] > 1))
                assert remotes[0].process.poll() is None
    finally:
        bridge.close()
