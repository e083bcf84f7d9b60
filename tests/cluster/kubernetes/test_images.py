"""Pods of a run that have the file systems of the images of docker/."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.conftest import wait_for
from tests.cluster.kubernetes import controller
from tests.cluster.kubernetes.conftest import Frontend
from tests.docker.builder import Builder, missing

REASON = controller.missing() or missing(Path("/tmp"))
pytestmark = [
    pytest.mark.images,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(REASON), reason=REASON),
]


def test_a_learner_and_two_actors_train_in_pods_of_the_images(
    built: Builder, frontend: Callable[..., Frontend]
):
    names = {"learner": "registry.example/learner:1", "actor": "registry.example/actor:1"}
    roots = {name: built.mount(built.container(f"impala-{kind}")) for kind, name in names.items()}
    run = frontend(True, roots)
    sizes = ("--batch_size=2", "--unroll_length=10", "--envs_per_actor=2", "--max_batch_wait_s=60")
    images = [f"--{kind}_image={name}" for kind, name in names.items()]
    often = ("--checkpoint_every_s=5", "--report_every_s=2")
    run.start("--learners=1", "--actors=2", "--level_name=CartPole-v1", *sizes, *images, *often)
    wait_for(lambda: " · mean return " in run.run("status").stdout, 120)
    ready = run.nodes.running[run.pod("learner-0")]
    wait_for(lambda: ready.is_ready, 60)
    # It is evicted: another pod of the image resumes from the volume.
    run.nodes.evict(run.pod("learner-0"))
    wait_for(lambda: run.pod("learner-0").endswith("-b"), 60)
    wait_for(lambda: "resum" in run.run("logs", "--name=learner-0").stdout.lower(), 120)
    assert set(run.states().values()) == {"running"}
    assert run.run("stop").stdout == "Stopped 1 learner and 2 actors.\n"
