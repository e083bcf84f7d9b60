"""A finished run as people see it in TensorBoard, in a real browser."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from algorithms.impala import Impala
from tests import browser
from tests.trainer.launching import run

pytestmark = [
    pytest.mark.skipif(
        browser.find() is None, reason="needs Chromium, which bin/setup --test installs"
    ),
    pytest.mark.xdist_group("browser"),
]
CHARTS = [
    *("mean_episode_return", "frames_per_second", "policy_lag", "entropy", "baseline_spread"),
    *("learner_wait_share", "actor_wait_share", "total_loss", "gradient_norm"),
]
STARTS_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    """TensorBoard on a short run that has ended."""
    folder = tmp_path_factory.mktemp("run")
    trained = run(f"--logdir={folder}", "--total_environment_frames=12000")
    assert trained.returncode == 0, trained.stderr
    with serving(folder) as where:
        yield where


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    where = [f"--logdir={folder}", "--host=127.0.0.1", f"--port={port}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", *where],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + STARTS_WITHIN_S
        while not answers(port):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_every_chart_is_there_by_its_name(address):
    with browser.Browser() as window:
        window.open(f"{address}/#timeseries")
        for name in [*CHARTS, *Impala.samples]:
            lines = "document.body.innerText.split('\\n')"
            window.wait_for(f"{lines}.includes({name!r})", STARTS_WITHIN_S)


def test_the_return_is_drawn_as_a_curve(address):
    with browser.Browser() as window:
        window.open(f"{address}/?tagFilter=mean_episode_return#timeseries")
        window.wait_for("document.querySelector('scalar-card line-chart') !== null")
        window.wait_for("document.querySelector('scalar-card').innerText.includes('mean_episode')")
