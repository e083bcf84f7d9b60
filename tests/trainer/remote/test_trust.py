"""A secure learner's process attacked by strangers: they get nothing, and the run continues."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import credentials
from tests.trainer.cluster import Process, alone, experiment, free_address, mpirun
from tests.trainer.levels import Unhurried, level
from trainer.remote import carriers
from trainer.settings.config import Settings
from transport import secure
from transport.secure import calls

import grpc  # isort: skip (not before transport.secure, which sets how it logs)

pytestmark = pytest.mark.xdist_group("trainer cluster")

COMMON = [
    f"--level_name={level(Unhurried)}",
    "--envs_per_actor=4",
    "--env_threads=1",
    "--unroll_length=10",
    "--batch_size=4",
    "--peer_timeout_s=4",
]
LARGE = 2**28  # bytes; far more than any message of these runs


def learners_flags(logdir: Path, address: str, *more: str) -> list[str]:
    quick = ["--report_every_s=0.5", "--checkpoint_every_s=1", "--total_environment_frames=1e8"]
    own = ["--job_name=learner", f"--learner_host={address}", f"--logdir={logdir}"]
    return [*COMMON, *own, *quick, "--transport=secure", *more]


def learner(logdir: Path, address: str, *more: str) -> Process:
    return alone(*learners_flags(logdir, address, *more))


def actor(address: str, file: Path, *more: str) -> Process:
    own = ["--job_name=actor", f"--learner_host={address}", f"--credentials={file}"]
    return alone(*COMMON, *own, "--transport=secure", *more)


def actors_file(logdir: Path) -> Path:
    return logdir / credentials.FOLDER / credentials.ACTOR


def call(channel: grpc.Channel, method: str, token: bytes | None, message: bytes = b"") -> str:
    """The status of a call."""
    metadata = () if token is None else ((calls.TOKEN, token),)
    # The stream of weights has no end.
    seconds = 10 if method == calls.WEIGHTS else 60
    try:
        channel.unary_unary(method)(message, timeout=seconds, metadata=metadata)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


class Memory:
    """The growth of a process's resident memory within a block, at its largest."""

    def __init__(self, process: Process):
        self._process = psutil.Process(process._process.pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.grown = 0

    def __enter__(self) -> "Memory":
        self._before = self._process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self.grown = max(self.grown, self._process.memory_info().rss - self._before)


def wait_for_updates(learner: Process) -> None:
    """Waits for updates that began after the call."""
    learner.wait_for("checkpoint frames-", times=learner.output().count("checkpoint") + 2)


@contextlib.contextmanager
def training(logdir: Path) -> Iterator[tuple[str, Process, Process]]:
    """A learner and its actor, which must train before and after the block."""
    address = free_address()
    with learner(logdir, address) as first:
        first.wait_for("waiting for actors")
        with actor(address, actors_file(logdir)) as playing:
            first.wait_for("checkpoint frames-", times=2)
            yield address, first, playing
            wait_for_updates(first)
            assert "Waiting" not in playing.output(), playing.output()
            assert "heard" not in first.output() and "has left" not in first.output()
            first.send(signal.SIGTERM)
            assert first.wait(60) == 0 and "Ended: SIGTERM" in first.output()
            playing.send(signal.SIGTERM)
            assert playing.wait(60) == 0


def warnings_of(learner: Process) -> list[str]:
    return [
        line for line in learner.output().splitlines() if "Further ones are not reported" in line
    ]


def test_strangers_are_refused_and_reported_once_each_and_the_run_continues(tmp_path):
    with training(tmp_path) as (address, first, _):
        mine = credentials.read(str(actors_file(tmp_path)), of_learner=False)
        trusted = grpc.ssl_channel_credentials(mine.certificate)
        with grpc.secure_channel(address, trusted, secure.connection.OPTIONS) as caller:
            callers_without_the_token(caller, first)
            messages_that_are_too_large(caller, mine.token, first)
        clients_that_are_no_actors(address, first)
        time.sleep(1)
        found = warnings_of(first)
        assert len(found) == 3
        assert all(line.count("127.0.0.1") + line.count(address) == 1 for line in found)


def callers_without_the_token(caller: grpc.Channel, first: Process) -> None:
    for _ in range(10):
        assert call(caller, calls.PUT, None) == "UNAUTHENTICATED"
        assert call(caller, calls.HELLO, os.urandom(32)) == "UNAUTHENTICATED"
    with Memory(first) as memory:
        assert call(caller, calls.PUT, None, bytes(LARGE)) == "UNAUTHENTICATED"
    assert memory.grown < LARGE / 4
    first.wait_for("came without the token of this run")


def messages_that_are_too_large(caller: grpc.Channel, token: bytes, first: Process) -> None:
    for method in (calls.PUT, calls.TELL, calls.HELLO, calls.WEIGHTS):
        with Memory(first) as memory:
            answer = call(caller, method, token, bytes(LARGE))
        # The call for weights ignores what it is sent.
        refusals = ["RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"]
        assert answer in refusals or method == calls.WEIGHTS
        # Refused before it takes memory.
        assert memory.grown < LARGE / 4, (method, memory.grown)
    first.wait_for("was refused: a message of more than")


def clients_that_are_no_actors(address: str, first: Process) -> None:
    host, port = address.split(":")
    with grpc.insecure_channel(address) as plain:
        assert call(plain, calls.HELLO, None) == "UNAVAILABLE"
    for _ in range(20):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.settimeout(30)
            with contextlib.suppress(OSError):
                for _ in range(50):
                    stranger.sendall(os.urandom(4096))
                while stranger.recv(4096):
                    pass
    first.wait_for(f"a client connected to {address} and made no call")


def test_an_actor_refuses_a_learner_with_another_certificate_and_the_token_stays_secret(tmp_path):
    run = tmp_path / "run"
    credentials.make(tmp_path / "other")
    with training(run) as (address, first, playing):
        with actor(address, tmp_path / "other" / credentials.ACTOR) as wrong:
            assert wrong.wait(60) == 2
            assert f"refused the learner at {address}" in wrong.output()
            assert "another server answers in its place" in wrong.output()
            assert "Traceback" not in wrong.output()
            wrong_output = wrong.output()
        assert first.output().count("has joined") == 1
        hidden = secrets_of(run / credentials.FOLDER)
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                assert not any(secret in line.read_bytes() for secret in hidden)
        output = (first.output() + playing.output() + wrong_output).encode()
        assert not any(secret in output for secret in hidden)
    for path in run.rglob("*"):
        if path.is_file() and path.parent.name != credentials.FOLDER:
            content = path.read_bytes()
            assert not any(secret in content for secret in hidden), path


def secrets_of(folder: Path) -> list[bytes]:
    """The token as bytes and in hexadecimal, and the lines of token and key in their file."""
    mine = credentials.read(str(folder / credentials.LEARNER), of_learner=True)
    blocks = credentials.BLOCK.findall((folder / credentials.LEARNER).read_text())
    lines = [line for name, text in blocks if name != "CERTIFICATE" for line in text.split()]
    return [mine.token, mine.token.hex().encode(), *(line.encode() for line in lines)]


def own_address() -> str:
    """An address of this machine that others can reach, or else a second loopback address."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and not one.address.startswith("127."):
                return one.address
    return "127.0.0.5"


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    """The addresses at which a process listens; IPv4 mapped to IPv6 counts as IPv4."""
    return {
        (found.laddr.ip.removeprefix("::ffff:"), found.laddr.port)
        for found in process.net_connections("tcp")
        if found.status == psutil.CONN_LISTEN
    }


def test_a_secure_learner_listens_at_its_address_only(tmp_path):
    host = own_address()
    port = int(free_address().split(":")[1])
    with learner(tmp_path, f"{host}:{port}") as first:
        first.wait_for("waiting for actors")
        if not host.startswith("127."):
            first.wait_for("actors on other hosts need a copy of")
        assert "warning" not in first.output()
        with actor(f"{host}:{port}", actors_file(tmp_path)):
            first.wait_for("checkpoint frames-")
            process = psutil.Process(first._process.pid)
            assert listening(process) == {(host, port)}
            assert not process.children(recursive=True)
            socket.create_connection((host, port)).close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))


def test_learners_on_one_host_share_credentials_and_listen_at_their_addresses_only(tmp_path):
    host = own_address()
    ports = [int(free_address().split(":")[1]) for _ in range(2)]
    flags = [learners_flags(tmp_path, f"{host}:{port}") for port in ports]
    with mpirun([experiment(*one) for one in flags]) as both:
        both.wait_for("waiting for actors", times=2)
        file = actors_file(tmp_path)
        with actor(f"{host}:{ports[0]}", file), actor(f"{host}:{ports[1]}", file):
            both.wait_for("has joined", times=2)
            both.wait_for("checkpoint frames-")
            learners = psutil.Process(both._process.pid).children()
            found = [listening(one) for one in learners]
            assert all(len(one) == 1 for one in found)
            assert set.union(*found) == {(host, port) for port in ports}


def test_learners_with_different_credentials_do_not_train_together(tmp_path):
    for name in ("one", "other"):
        credentials.make(tmp_path / name)
    flags = [
        learners_flags(
            tmp_path / "run", free_address(), f"--credentials={tmp_path / name / 'learner.pem'}"
        )
        for name in ("one", "other")
    ]
    with mpirun([experiment(*one) for one in flags]) as both:
        assert both.wait(120) == 2
        error = f"--credentials={tmp_path / 'other' / 'learner.pem'} of learner 1 differs"
        assert error in both.output()


def test_a_plain_learner_warns_that_others_can_connect_and_if_it_cannot_resolve_its_own_name():
    for host, times in (("no-such-host.invalid", 1), ("localhost", 0), (own_address(), 0)):
        printed: list[str] = []
        address = f"{host}:{free_address().split(':')[1]}"
        settings = Settings(job_name="learner", learner_host=address)
        carriers.server(settings.remote, None, 1, printed.append).close()
        assert str(printed).count("warning: anyone who can reach port") == 1
        assert str(printed).count(f"cannot resolve {host} of --learner_host") == times


@pytest.mark.parametrize("job", ["actor", "learner"])
def test_unsafe_credentials_are_reported_in_one_line(tmp_path, job):
    credentials.make(tmp_path)
    file = tmp_path / (credentials.ACTOR if job == "actor" else credentials.LEARNER)
    file.chmod(0o644)
    flags: list[Any] = [*COMMON, f"--job_name={job}", "--transport=secure"]
    address = f"--learner_host={free_address()}"
    with alone(*flags, address, f"--credentials={file}", f"--logdir={tmp_path}") as process:
        assert process.wait(60) == 2
        assert f"--credentials={file}: others may read or change it" in process.output()
        assert "Traceback" not in process.output()
