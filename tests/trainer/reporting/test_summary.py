"""The summary at a run's end: what was trained, what limited it, what to do next."""

import os
import shlex
from pathlib import Path

import pytest

from tests.trainer.reports import LEVELS, figures, of_levels
from tests.trainer.untrained import make_run
from trainer.reporting.reporter import summary

RUN = {
    "level_name": "PongNoFrameskip-v4",
    "agent_name": "SimpleConvNetAgent",
    "num_actors": 2,
    "best_return": 19.25,
}


def test_the_summary_says_what_was_trained_and_what_to_do_next():
    text = summary(figures(20_000_000) | RUN, "all frames are trained", Path("logs/pong"))
    for words in (
        "Ended: all frames are trained.",
        "SimpleConvNetAgent on PongNoFrameskip-v4",
        "20,000,000 in 2 h 13 min",
        "-12.5, at best 19.2",
        "2,346 frames/s, 586 agent steps/s",
        "actors (emulation + inference) (learner waits 40%, actors wait 3%)",
        "the learner was busy 60% of the time with 2 actors: it could handle about 3 actors",
        "tensorboard --logdir logs/pong",
        "--mode=test --logdir=logs/pong --level_name=PongNoFrameskip-v4",
    ):
        assert words in text
    text = summary(figures(0) | RUN | {"updates": 0}, "SIGTERM", Path("logs/pong"))
    assert "there was no update, so there is no checkpoint" in text and "--mode=test" not in text


def test_a_checkpoint_that_was_kept_beside_a_replay_can_be_played_also_without_an_update(tmp_path):
    make_run(tmp_path, "CartPole-v1", frames=0)
    text = summary(figures(0) | RUN | {"updates": 0}, "SIGTERM", tmp_path)
    assert "there is no checkpoint" not in text and "--mode=test" in text


def test_the_summary_says_how_busy_the_cores_were_and_what_would_help():
    def summarised(**changed):
        return summary(figures(**changed) | RUN | {"job_name": "local"}, "done", Path("x"))

    waits = {"learner_wait_share": 0.0, "actor_wait_share": 0.5}
    busy = summarised(cores_busy_share=0.97, **waits)
    assert "learner (learner waits 0%, actors wait 50%, cores busy 97%)" in busy
    assert "all cores are busy" in busy
    assert "more actors would not" in summarised(cores_busy_share=0.6, **waits)
    assert "more --env_threads" in summarised(cores_busy_share=0.6)
    assert "--env_threads" not in summary(
        figures(cores_busy_share=0.6) | RUN | {"job_name": "learner"}, "done", Path("x")
    )


def test_the_summary_of_several_learners_says_how_long_they_waited_for_each_other():
    waits = {"learner_wait_share": 0.1, "actor_wait_share": 0.1, "team_wait_share": 0.5}
    text = summary(figures(cores_busy_share=0.5, **waits) | RUN, "done", Path("x"))
    assert (
        "other learners (learner waits 10%, actors wait 10%, waits for other learners 50%" in text
    )
    assert "learners wait for the slowest one" in text
    assert "the first learner was busy 90% of the time" in text


def test_commands_in_the_summary_can_be_pasted():
    text = summary(figures() | RUN, "done", Path("my logs/pong"))
    assert "tensorboard --logdir 'my logs/pong'" in text
    assert "'--logdir=my logs/pong' --level_name=Pong" in text
    look, play = [shlex.split(line)[1:] for line in text.splitlines()[-2:]]
    assert os.access(look[0], os.X_OK) and os.access(play[0], os.X_OK)
    assert Path(play[1]).name == "experiment.py" and Path(play[1]).is_file()


def test_the_summary_names_levels():
    text = summary(of_levels() | RUN, "SIGINT", Path("logs/three"))
    assert [level for level in LEVELS if f" {level} " in text or f"{level} –" in text] == LEVELS


@pytest.mark.parametrize(
    ("actors", "learner_waits", "actors_wait", "words"),
    [
        (4, 0.75, 0.0, "about 16 actors"),
        (4, 0.0, 0.5, "about 2 actors"),
        (1, 0.0, 0.9, "with 1 actor: it could handle 1 actor"),
        (2.53, 0.5, 0.0, "with 2.5 actors: it could handle about 5 actors"),
        (4, 0.999, 0.0, "hardly busy"),
    ],
)
def test_the_summary_estimates_how_many_actors_a_learner_can_handle(
    actors, learner_waits, actors_wait, words
):
    waits = {"learner_wait_share": learner_waits, "actor_wait_share": actors_wait}
    assert words in summary(figures(**waits) | RUN | {"num_actors": actors}, "done", Path("x"))
