"""Signals as requests to stop: what a second one does, in a job of Slurm and elsewhere."""

import os
import signal

import pytest

from cluster.on_host.processes import MARK
from lab.trials import keeper
from trainer.programs import stopping
from trainer.programs.stopping import StopSignal


class Ended(Exception):
    """Stands in for the end of this process."""


@pytest.fixture
def ends():
    """What a second signal does is an exception here."""

    def end(number, _):
        raise Ended

    all_of_them = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in all_of_them}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def test_a_second_signal_ends_the_process_at_once(ends, monkeypatch):
    for name in stopping.STARTED_BY_OTHERS:
        monkeypatch.delenv(name, raising=False)
    with StopSignal(restores=True) as stop:
        send(signal.SIGTERM)
        assert stop.name == "SIGTERM"
        with pytest.raises(Ended):
            send(signal.SIGTERM)


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", MARK, keeper.MARK])
def test_in_a_job_a_run_and_the_lab_terms_that_come_together_are_one(ends, monkeypatch, name):
    for one in stopping.STARTED_BY_OTHERS:
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setenv(name, "7")
    now = iter([100.0, 100.0, 100.1, 104.0, 106.0])
    monkeypatch.setattr(stopping.time, "monotonic", lambda: next(now))
    with StopSignal(restores=True) as stop:
        for _ in range(3):
            send(signal.SIGTERM)
        assert stop.name == "SIGTERM"
        with pytest.raises(Ended):  # a later one is meant
            send(signal.SIGTERM)


def test_ctrl_c_twice_ends_there_as_everywhere(ends, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with StopSignal(restores=True):
        send(signal.SIGINT)
        with pytest.raises(Ended):
            send(signal.SIGINT)


def test_a_closed_terminal_asks_to_stop_and_is_never_a_second_signal(ends, monkeypatch):
    for name in stopping.STARTED_BY_OTHERS:
        monkeypatch.delenv(name, raising=False)
    with StopSignal(restores=True) as stop:
        send(signal.SIGHUP)
        assert stop.name == "SIGHUP"
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
            send(number)
        with pytest.raises(Ended):
            send(signal.SIGTERM)
    with pytest.raises(Ended):  # as before
        send(signal.SIGHUP)


def test_under_nohup_a_closed_terminal_stops_nothing(ends):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopSignal() as stop:
        send(signal.SIGHUP)
        assert not stop.is_set()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
