"""The benchmark of transport runs and shows both transports' figures beside the bare copy."""

import contextlib
import json
import subprocess
import sys

import pytest

from benchmarks.parts import sending, transport
from benchmarks.tools import namespaces
from user_error import UserError

LEVEL = "PongNoFrameskip-v4"
QUICK = ["--actors=1", "--seconds=0.2", "--repeats=2"]


def rows_of(tmp_path, *flags):
    transport.measure([*QUICK, *flags, f"--results={tmp_path}"])
    return json.loads((tmp_path / "transport.json").read_text())["rows"]


def test_blocks_stand_beside_the_bare_copy_with_where_time_went(tmp_path):
    rows = rows_of(tmp_path, "--sizes=2000")
    assert [row["transport"] for row in rows] == ["tensorflow", "secure"]
    for row in rows:
        assert (row["bytes"], row["actors"], row["link"]) == ("2000", "1", "loopback")
        for figure in ("messages/s", "MB/s", "bare TCP MB/s"):
            assert len(row[figure]["values"]) == 2 and row[figure]["least"] > 0
        bytes_a_second = pytest.approx(row["messages/s"]["median"] * 2000)
        assert row["MB/s"]["median"] * 1e6 == bytes_a_second
        assert row["sent"] == pytest.approx(1.0, abs=0.05)  # padded
        assert row["compute"] + row["pack"] + row["wait"] == pytest.approx(1.0, abs=0.1)
        assert 0 < row["send"] <= 1.0


@pytest.mark.parametrize("content", transport.CONTENTS)
def test_what_is_sent_follows_from_the_seed(content):
    def sent(seed):
        job = transport.Job("tensorflow", "", 0, 100_000, content, level_name=LEVEL, seed=seed)
        return next(sending.contents(job))

    one = sent(1)
    assert (one == sent(1)).all() and (one != sent(2)).any()


def sender(program):
    return subprocess.Popen([sys.executable, "-uc", program], stdout=subprocess.PIPE)


def test_it_is_measured_once_the_last_actor_sends():
    at_once = "import time; print('begun'); time.sleep(60)"
    late = "import time; time.sleep(3); print('begun'); print('{\"wait\": 1.0}')"
    own = transport.Own(seconds=0.1, repeats=1)  # shorter than that, also with what is before it
    with sender(at_once) as quick, sender(late) as slow:
        sending = transport.Senders([quick, slow])
        transport.measured(own, lambda: 1, sending)
        assert sending.have_begun()
        assert slow.wait(60) == 0
        sending.end()  # the first is ended before it can say more
    assert sending.printed == [{"wait": 1.0}]


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("", "has not connected within 0.5 s"),
        ("import socket, sys; s = socket.create_connection(('localhost', {port}));"
         "s.sendall(bytes(1500)); print('begun')", "bare TCP has ended"),
    ],
)  # fmt: skip
def test_a_bare_sender_that_ends_ends_the_benchmark_in_one_line(program, told, monkeypatch):
    @contextlib.contextmanager
    def senders(count, where, job):
        with sender(program.format(port=job.port)) as one:
            yield transport.Senders([one])

    monkeypatch.setattr(transport, "senders", senders)
    monkeypatch.setattr(transport, "CONNECTS_WITHIN_S", 0.5 if not program else 60.0)
    with pytest.raises(UserError, match=told):
        transport.bare_bytes_a_second(transport.Own(), transport.Where("localhost"), 1000)


def test_a_rate_to_which_an_actor_did_not_come_to_its_end_is_refused(monkeypatch):
    @contextlib.contextmanager
    def senders(count, where, job):
        with sender("print('begun'); print('{\"wait\": 1.0}')") as one, sender("") as killed:
            yield (sending := transport.Senders([one, killed]))
            assert one.wait(60) == killed.wait(60) == 0
            sending.end()

    monkeypatch.setattr(transport, "senders", senders)
    monkeypatch.setattr(transport, "measured", lambda *_: transport.spread([1.0]))
    job = transport.Job("secure", "localhost", transport.free_port(), 1000)
    with pytest.raises(UserError, match="1 of 2 actors of the benchmark did not come to their end"):
        transport.messages_a_second(transport.Own(), transport.Where("localhost"), job, 2)


def test_blocks_that_nobody_is_left_to_send_are_not_waited_for(monkeypatch):
    @contextlib.contextmanager
    def senders(count, where, job):
        with sender("print('begun')") as one, sender("") as other:
            assert one.wait(60) == other.wait(60) == 0
            yield transport.Senders([one, other])

    def take(self, timeout_s):
        assert timeout_s == transport.LOOKS_EVERY_S

    monkeypatch.setattr(transport, "senders", senders)
    monkeypatch.setattr(transport.Receiver, "take", take)
    monkeypatch.setattr(transport, "BLOCK_WITHIN_S", 600.0)
    job = transport.Job("secure", "localhost", transport.free_port(), 1000)
    with pytest.raises(UserError, match="2 of 2 actors of the benchmark did not come to their end"):
        transport.messages_a_second(transport.Own(), transport.Where("localhost"), job, 2)


@pytest.mark.skipif(bool(namespaces.missing("tc")), reason=namespaces.missing("tc"))
def test_pictures_are_sent_small_over_a_slow_link(tmp_path):
    flags = [
        "--sizes=200000",
        "--contents=play",
        "--compressions=zstd",
        "--megabits=100",
        "--seconds=2",
    ]
    [row] = rows_of(tmp_path, *flags, "--transports=secure")
    assert (row["link"], row["content"], row["compression"]) == ("100 Mbit/s", "play", "zstd")
    assert 0 < row["sent"] < 0.1 and row["compute"] > 0
    assert row["bare TCP MB/s"]["most"] < 100e6 / 8 / 1e6 * 1.2


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--compressions=gzip", "known are none, zstd, lz4"),
        ("--contents=zeros", "known are noise, pictures, play"),
        ("--transports=mpi", "known are tensorflow, secure"),
        ("--level_name=Breakouts", "there is no level"),
        ("--megabits=-1", "expected numbers from 0"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_measured(flag, words, tmp_path):
    with pytest.raises(UserError, match=words):
        transport.measure([flag, f"--results={tmp_path}"])
