"""The images, built from plain Debian and run: a quarter of an hour, so only when asked for.

    bin/test -m images

Needs root, debootstrap, buildah, a network and 14 GiB of disk, all of which it gives back.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.tools.ports import free_port
from environments.realtime import password
from tests.docker.builder import Builder, missing

REASON = missing(Path("/tmp"))
pytestmark = [
    pytest.mark.images,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(REASON), reason=REASON),
]

LARGEST = {"impala-actor": 1.5e9, "impala-learner": 2.0e9, "impala-remote": 1.5e9}
LEVEL = ["--level_name=PongNoFrameskip-v4", "--env_threads=1", "--envs_per_actor=8"]
QUICK = [*LEVEL, "--unroll_length=10", "--peer_timeout_s=20", "--max_batch_wait_s=60"]
PROJECT = "/home/impala/impala"


class Running:
    """A command in a container, ended with the ``with`` block."""

    def __init__(self, builder: Builder, container: str, *words: str, **env: str):
        self.log = builder.folder / f"{container}-{time.time_ns()}.log"
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                builder.run_command(container, *words, env=env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, seconds: float = 300) -> None:
        until = time.monotonic() + seconds
        while text not in self.output():
            assert self._process.poll() is None and time.monotonic() < until, self.output()
            time.sleep(0.2)

    def wait(self, seconds: float = 600) -> int:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running: {self.output()}") from None


def enter(builder: Builder, image: str, container: str, *arguments: str, **env: str) -> Running:
    """A container as its image says that it starts."""
    return Running(builder, container, *builder.config(image)["Entrypoint"], *arguments, **env)


def in_container(builder: Builder, container: str, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        builder.run_command(container, *words, env={}),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_images_are_small_and_not_roots(built):
    for image, largest in LARGEST.items():
        size = built.size(image)
        print(f"{image}: {size / 1e9:.2f} GB unpacked", file=sys.stderr)
        assert size < largest, f"{image} has {size / 1e9:.2f} GB"
        told = built.config(image)
        assert told["User"] == "impala" and told["Healthcheck"]["Test"] == ["CMD", "docker/health"]
        code, user = in_container(built, built.container(image), "id", "-un")
        assert (code, user) == (0, "impala\n")


def test_only_the_learner_has_horovod(built):
    for image, there in (("impala-actor", 1), ("impala-learner", 0)):
        words = [".venv/bin/python", "-c", "import horovod.tensorflow"]
        assert in_container(built, built.container(image), *words)[0] == there


def test_actors_play_for_a_learner_in_another_container(built):
    port = free_port()
    host = [f"--learner_host=localhost:{port}", *QUICK]
    learner, *actors = [built.container(f"impala-{kind}") for kind in ("learner", "actor", "actor")]
    learns = ["--job_name=learner", "--total_environment_frames=160000", "--logdir=logs/run", *host]
    plays = ["--job_name=actor", *host]
    with enter(built, "impala-learner", learner, *learns) as learning:
        learning.wait_for("waiting for actors")
        code, told = in_container(built, actors[0], "docker/health")
        assert code == 0, told  # nothing promised yet
        with (
            enter(built, "impala-actor", actors[0], *plays) as first,
            enter(built, "impala-actor", actors[1], *plays, HOSTNAME="other") as second,
        ):
            first.wait_for("Connected to the learner")
            second.wait_for("Connected to the learner")
            for container in (learner, *actors):
                assert in_container(built, container, "docker/health") == (0, "")
            assert learning.wait() == 0, learning.output()
            for actor in (first, second):
                assert actor.wait() == 0, actor.output()
    assert "Ended: all frames are played" in learning.output()
    print(learning.output()[-1200:], file=sys.stderr)
    code, names = in_container(built, learner, "ls", "logs/run")
    assert code == 0 and "learning_curve.png" in names
    code, told = in_container(built, learner, "docker/health")
    assert code == 1 and f"port {port}" in told
    tests = ["--mode=test", "--logdir=logs/run", "--test_num_episodes=1", LEVEL[0]]
    code, told = in_container(built, learner, ".venv/bin/python", "experiment.py", *tests)
    assert code == 0 and "evaluation.json" in told


def test_two_learners_in_two_containers_train_together(built):
    """mpirun logs in from the one to the other; each has an actor in a container of its own."""
    ports, ssh_port = [free_port(), free_port()], free_port()
    here, there = built.container("impala-learner"), built.container("impala-learner")
    key = "/home/impala/.ssh/id_ed25519"
    make_key = f"mkdir -p -m 700 ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f {key} && cat {key}.pub"
    code, public = in_container(built, here, "bash", "-c", make_key)
    assert code == 0, public
    ssh = f"ssh -p {ssh_port} -o StrictHostKeyChecking=accept-new"
    learns = [".venv/bin/python", "experiment.py", "--job_name=learner", *QUICK]
    learns += ["--total_environment_frames=20000", "--logdir=logs/run"]
    ranks = [[*learns, f"--learner_host=localhost:{port}"] for port in ports]
    common = ["-np", "1", "-bind-to", "none", "-map-by", "slot"]
    # 127.0.0.2 is this machine as well, and another name than localhost to mpirun.
    mpirun = ["mpirun", "-mca", "plm_rsh_agent", ssh]
    mpirun += ["-mca", "btl_tcp_if_include", "lo", "-mca", "oob_tcp_if_include", "lo"]
    mpirun += ["-wdir", PROJECT, "-H", "localhost", *common, *ranks[0]]
    mpirun += [":", "-wdir", PROJECT, "-H", "127.0.0.2", *common, *ranks[1]]
    logs_in = {"AUTHORIZED_KEYS": public.strip()}
    with enter(built, "impala-learner", there, "sshd", str(ssh_port), **logs_in) as sshd:
        sshd.wait_for("Server listening")
        assert in_container(built, there, "docker/health") == (0, "")
        with Running(built, here, "bash", "-c", f"cd {PROJECT} && {shlex.join(mpirun)}") as both:
            actors = [
                enter(
                    built,
                    "impala-actor",
                    built.container("impala-actor"),
                    "--job_name=actor",
                    f"--learner_host=localhost:{port}",
                    *QUICK,
                )
                for port in ports
            ]
            with actors[0], actors[1]:
                assert both.wait() == 0, both.output()
                assert all(actor.wait() == 0 for actor in actors)
    assert both.output().count("Ended: all frames are played") == 1
    assert "has joined" in both.output()
    assert "Accepted publickey for impala" in sshd.output()


def test_a_remote_serves_its_world_to_a_learner_in_another_container(built):
    desktop, rewarder = free_port(), free_port()
    remote, learner = built.container("impala-remote"), built.container("impala-learner")
    for container in (remote, learner):  # as vncpasswd writes it
        home = built.mount(container) / "home/impala"
        (home / "password").write_bytes(password.scrambled("hush-421"))
        (home / "password").chmod(0o600)
        shutil.chown(home / "password", home.stat().st_uid, home.stat().st_gid)
    file = "/home/impala/password"
    serves = ["--level_name=Catch-v0", "--fps=20", f"--password_file={file}"]
    serves += [f"--vnc_port={desktop}", f"--rewarder_port={rewarder}"]
    learns = ["--level_name=vnc:Catch-v0", "--fps=20", f"--remote_password_file={file}"]
    learns += [f"--remotes=127.0.0.1:{desktop}+{rewarder}", "--envs_per_actor=1", "--num_actors=1"]
    learns += ["--batch_size=1", "--unroll_length=10", "--total_environment_frames=150"]
    with enter(built, "impala-remote", remote, "serve", *serves) as serving:
        serving.wait_for(f"remote 127.0.0.1:{desktop}+{rewarder}")
        wait_until_healthy = time.monotonic() + 60
        while (told := in_container(built, remote, "docker/health"))[0]:
            assert time.monotonic() < wait_until_healthy, told
            time.sleep(1)
        with enter(built, "impala-learner", learner, *learns, "--logdir=logs/run") as learning:
            assert learning.wait() == 0, learning.output()
    assert "Ended: all frames are played" in learning.output()
