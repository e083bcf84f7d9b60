"""What the images are made of, looked at without building them."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import environments
from cluster.backends.ssh.syncing import WHAT
from environments import Remotes
from environments.remote.options import Options
from tests.environments.realtime.remotes import remote
from tests.scripts import write_python
from trainer import build
from trainer.settings import addresses, config

PROJECT = Path(__file__).parents[2]
DOCKER = PROJECT / "docker"
DOCKERFILES = sorted(DOCKER.glob("Dockerfile*"))


def test_there_are_three_images_of_one_recipe():
    kinds = [path.name.removeprefix("Dockerfile").lower() for path in DOCKERFILES]
    assert kinds == ["actor", "learner", "remote"]
    for kind, path in zip(kinds, DOCKERFILES, strict=True):
        runs = [argument for name, argument in instructions(path) if name == "RUN"]
        assert [" ".join(run.split()[:3]) for run in runs] == [
            f"docker/recipe packages {kind}",
            f"docker/recipe system {kind}",
        ]


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Name and argument of each instruction."""
    text = re.sub(r"^#.*\n", "", dockerfile.read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_copies_what_is_there_and_does_not_run_as_root(dockerfile):
    found = instructions(dockerfile)
    for name, argument in found:
        words = shlex.split(argument)
        if name == "COPY" and not words[0].startswith("--from"):
            for source in [word for word in words[:-1] if not word.startswith("--")]:
                assert source == "." or list(PROJECT.glob(source)), source
    users = [argument for name, argument in found if name == "USER"]
    assert users == ["impala"]
    names = [name for name, _ in found]
    assert "HEALTHCHECK" in names and "ENTRYPOINT" in names
    # Requirements come before the code, so that a change of code installs nothing anew.
    copies = [argument for name, argument in found if name == "COPY"]
    assert "requirements/actor.txt" in copies[1] and copies[-1].endswith(". .")


def test_the_builder_gets_all_of_the_code_and_nothing_else():
    lines = (PROJECT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    assert allowed == {*WHAT, "docker"}
    assert lines[1] == "*"


def compose() -> dict:
    text = re.sub(r"\$\{(\w+):-(.*?)\}", r"\2", (DOCKER / "compose.yaml").read_text())
    return yaml.safe_load(text)["services"]


def test_the_services_of_compose_belong_together():
    services = compose()
    for service in services.values():
        if "build" in service:
            assert (PROJECT / service["build"]["dockerfile"]).exists()
            assert (DOCKER / service["build"]["context"]).resolve() == PROJECT
    learner = config.parse(shlex.split(services["learner"]["command"]))
    actor = config.parse(shlex.split(services["actor"]["command"]))
    assert (learner.program.job_name, actor.program.job_name) == ("learner", "actor")
    assert learner.remote.learner_host == actor.remote.learner_host
    assert addresses.address(learner.remote.learner_host)[0] in services
    assert learner.level.level_name == actor.level.level_name
    mounted = services["learner"]["volumes"][0].split(":")[1]
    assert mounted == "/home/impala/impala/logs" and learner.storage.logdir.startswith("logs/")


def test_volumes_of_the_guide_lie_over_folders_of_the_containers_user():
    """Over a folder that the image lacks, a volume would belong to root."""
    guide, recipe = ((DOCKER / name).read_text() for name in ("README.md", "recipe"))
    mounts = set(re.findall(r"-v [^:\s]+:(/home/impala/[^:\s`]+)", guide))
    home = Path("/home/impala/impala")  # where the recipe runs
    made = {
        str(home / word)
        for line in re.findall("^ *install -d (.*-o impala .*)$", recipe, re.MULTILINE)
        for word in line.split()
    }
    assert {"/home/impala/.sshd", "/home/impala/impala/logs"} <= mounts <= made


def enter(*arguments: str, folder: Path, host: str = "box") -> tuple[list[str], str]:
    """What the entry point would run, and what it promises."""
    done, promise = entered(*arguments, folder=folder, host=host), folder / "promise"
    return json.loads(done.stdout), promise.read_text() if promise.is_file() else ""


def entered(*arguments: str, folder: Path, host: str = "box") -> subprocess.CompletedProcess[str]:
    """The entry point; its project has a Python that only tells its arguments."""
    for name in ("docker", ".venv/bin"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    script = (DOCKER / "entrypoint").read_text()
    script = script.replace("/tmp/impala-", f"{folder}/")
    (folder / "docker" / "entrypoint").write_text(script)
    python = folder / ".venv" / "bin" / "python"
    write_python(python, "import json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    return subprocess.run(
        ["bash", str(folder / "docker" / "entrypoint"), *arguments],
        env={**os.environ, "HOSTNAME": host},
        capture_output=True,
        text=True,
        check=True,
    )


def test_flags_go_to_the_training_and_are_what_the_container_is_held_to(tmp_path):
    flags = ["--job_name=learner", "--logdir=a b"]
    assert enter(*flags, folder=tmp_path) == (["experiment.py", *flags], "\n".join(flags) + "\n")


def test_a_container_starts_on_a_full_disk(tmp_path):
    (tmp_path / "promise").symlink_to("/dev/full")
    flags = ["--job_name=actor", "--learner_host=learner:8001"]
    told, promise = enter(*flags, folder=tmp_path)
    assert told[:-1] == ["experiment.py", *flags] and promise == ""
    assert not (tmp_path / "promise").exists()


def test_a_container_starts_where_nothing_can_be_written(tmp_path):
    (tmp_path / "promise").mkdir()  # so that root cannot write it either
    assert enter("--mode=test", folder=tmp_path) == (["experiment.py", "--mode=test"], "")


def test_actors_with_the_same_flags_get_numbers_of_their_own(tmp_path):
    tasks = set()
    for box, flags in (
        ("a", ["--job_name=actor", "--seed=3"]),
        ("b", ["--job_name=actor", "--seed=3"]),  # with --network host, all have one name
        ("c", ["--job_name", "actor", "--seed=3"]),
    ):
        told, promise = enter(*flags, folder=tmp_path / box)
        assert told[:-1] == ["experiment.py", *flags]
        tasks.add(config.parse(told[1:]).program.task)
        assert told[-1] in promise
        # A container that starts again plays on under its number.
        assert enter(*flags, folder=tmp_path / box)[0] == told
    assert len(tasks) == 3
    # What a start on a full disk has left is no number.
    (tmp_path / "a" / "number").write_text("")
    assert enter(*flags, folder=tmp_path / "a")[0][-1].removeprefix("--task=").isdecimal()
    for given in (["--task=5"], ["--task", "5"]):
        told, _ = enter(*flags, *given, folder=tmp_path / "given")
        assert told == ["experiment.py", *flags, *given]


@pytest.mark.parametrize(
    ("flags", "is_warned"),
    [
        ("--level_name=A,B", True),
        ("--level_name A,B", True),
        ("--level_name=A,B --task=1", False),
        ("--level_name=A --hidden_sizes=64,64", False),
    ],
)
def test_an_actor_whose_level_a_drawn_number_chooses_is_warned(flags, is_warned, tmp_path):
    done = entered("--job_name=actor", *flags.split(), folder=tmp_path)
    assert ("give each actor its own --task" in done.stderr) == is_warned
    assert json.loads(done.stdout)[-1].startswith("--task=")


def test_an_actor_for_desktops_plays_on_its_own_of_them(tmp_path, monkeypatch):
    """As the docs start it. Numbers are drawn anywhere, but remotes are counted from 0."""
    asked: list[Remotes] = []
    monkeypatch.setattr(environments, "make", lambda *_, remotes, **__: asked.append(remotes))
    lines = (DOCKER / "README.md").read_text().splitlines()
    [shown] = [line for line in lines if " --remotes=" in line]
    flags = shlex.split(shown.partition(" impala-actor ")[2])
    for given in (flags, [flag for flag in flags if flag != "--task=0"]):
        told, _ = enter(*given, folder=tmp_path)
        assert told == ["experiment.py", *given]
        settings = config.parse(told[1:])
        build.actor_environment(settings, settings.program.task)
        assert asked.pop().addresses == (settings.actors.remotes,)


def test_a_remote_listens_at_loopback_and_at_ports_that_the_health_check_knows(tmp_path):
    told, promise = enter("serve", "--level_name=Catch-v0", folder=tmp_path)
    own = ["--vnc_port=5900", "--rewarder_port=15900"]
    assert told == ["-m", "environments.remote", "serve", *own, "--level_name=Catch-v0"]
    assert promise.split() == ["--remote", *own, "--level_name=Catch-v0"]
    assert Options().host == "127.0.0.1"
    told, promise = enter("serve", "--vnc_port=5950", folder=tmp_path)
    assert told[-1] == "--vnc_port=5950" and promise.split()[-1] == "--vnc_port=5950"  # it counts


@pytest.mark.xdist_group("remotes")
def test_a_remote_is_well_while_both_of_its_ports_answer(tmp_path):
    with remote("--level_name=Catch-v0") as served:
        _, desktop, rewarder = served.address
        flags = ["--remote", f"--vnc_port={desktop}", f"--rewarder_port={rewarder}"]
        assert health(tmp_path, *flags) == (0, "")
        os.kill(served.process.pid, signal.SIGSTOP)
        code, told = health(tmp_path, *flags)
        assert code == 1 and f"port {rewarder}" in told
        os.kill(served.process.pid, signal.SIGCONT)
        assert health(tmp_path, *flags) == (0, "")
    code, told = health(tmp_path, *flags)
    assert code == 1 and f"port {desktop}" in told


def test_another_command_is_run_as_it_is(tmp_path):
    told, promise = enter(".venv/bin/python", "one", "two words", folder=tmp_path)
    assert (told, promise) == (["one", "two words"], "")


def health(tmp_path: Path, *flags: str) -> tuple[int, str]:
    promise = tmp_path / "promise"
    promise.write_text("".join(f"{flag}\n" for flag in flags))
    done = subprocess.run(
        [sys.executable, str(DOCKER / "health"), str(promise)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def listening():
    with socket.create_server(("localhost", 0)) as server:
        yield server


@pytest.mark.parametrize("promised", ["--job_name=learner", "sshd"])
def test_who_is_to_listen_is_well_while_it_does(promised, listening, tmp_path):
    port = listening.getsockname()[1]
    flags = [promised, f"--learner_host=learner:{port}"]
    if promised == "sshd":
        flags = [f"--sshd_port={port}"]
    assert health(tmp_path, *flags) == (0, "")
    listening.close()
    code, told = health(tmp_path, *flags)
    assert code == 1 and f"port {port}" in told


def test_a_learner_is_looked_at_without_a_connection_that_it_would_report(tmp_path):
    with socket.create_server(("127.0.0.2", 0)) as server:
        host, port = "127.0.0.2", server.getsockname()[1]
        flags = ["--job_name", "learner", f"--learner_host={host}:{port}"]
        assert health(tmp_path, *flags, "--transport=secure") == (0, "")
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()


def test_an_actor_is_well_while_it_is_connected_to_its_learner(listening, tmp_path):
    port = listening.getsockname()[1]
    flags = ["--job_name=actor", f"--learner_host=learner:{port}"]
    assert health(tmp_path, *flags) == (1, f"not connected to the learner at learner:{port}\n")
    with socket.create_connection(("localhost", port)):
        assert health(tmp_path, *flags) == (0, "")


def test_who_has_promised_nothing_is_well(tmp_path):
    assert health(tmp_path, "--mode=test") == (0, "")
    done = subprocess.run([sys.executable, str(DOCKER / "health"), "/no/such/file"], check=False)
    assert done.returncode == 0
