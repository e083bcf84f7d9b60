"""Several agents in one process: a learner each, in the same games or in games of their own."""

import contextlib
import json
import shutil
import threading
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from environments import RandomActions
from tests.pictures import frames
from tests.trainer.disks import files_limited_to
from tests.trainer.launching import newest
from tests.trainer.levels import Breaks, Steps, Tens, level
from tests.trainer.untrained import make_run
from trainer import seats
from trainer.programs import local_agents
from trainer.programs.local import train
from trainer.programs.local_actors import ActorFailed
from trainer.programs.run import Run
from trainer.programs.stopping import StopSignal
from trainer.settings import config, sizes
from trainer.settings.config import Settings
from trainer.storage.folder import FolderLock
from trainer.storage.records import read_metrics
from trainer.trained import agents_of_run
from trainer.trained.evaluation import evaluate
from user_error import UserError

SHIFT = "pettingzoo:tests.environments.bodies.game"
RETURNS = {"early": 3.0, "whole": 21.0, "late": 15.0}


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Keeps TensorFlow's threads, which cannot change now."""
    monkeypatch.setattr(local_agents.cores, "divide", lambda **_: 1)


def settings(folder: Path, **changes: Any) -> Settings:
    small: dict[str, Any] = {
        "level_name": SHIFT,
        "agents": "left,right",
        "logdir": str(folder),
        "total_environment_frames": 400,
        "envs_per_actor": 8,
        "batch_size": 4,
        "unroll_length": 5,
        "replay_share": 0.0,
        "precision": "float32",
        "env_threads": 1,
    }
    return Settings(**small | changes)


pytestmark = pytest.mark.xdist_group("agents")  # they share a trained run


@pytest.fixture(scope="module")
def trained(tmp_path_factory, module_patch) -> Path:
    """A run whose agents have trained in the same games; the second has a body that never comes."""
    folder = tmp_path_factory.mktemp("agents")
    outcome = train(settings(folder))
    assert set(outcome.agents) == {"left", "right"}
    assert outcome.figures["right/mean_episode_return"] == 15.0
    return folder


@pytest.fixture(scope="module")
def module_patch():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_agents.cores, "divide", lambda **_: 1)
        yield


def counters(folder: Path, agent: str) -> dict[str, Any]:
    return newest(folder / "agents" / agent).counters


def test_each_agent_learns_from_its_own_bodies_only(trained):
    for agent, bodies in (("left", ["early", "whole"]), ("right", ["late", "never"])):
        last = read_metrics(trained / "agents" / agent)[-1]
        assert last["environment_frames"] >= 400 and np.isfinite(last["total_loss"])
        named = {f"mean_episode_return/{body}": RETURNS.get(body) for body in bodies}
        assert {key: last.get(key) for key in named} == named
        assert sum(key.startswith("mean_episode_return/") for key in last) == 2
    weights = [newest(trained / "agents" / one).weights for one in ("left", "right")]
    pairs = zip(weights[0].values(), weights[1].values(), strict=True)
    assert any((one != other).any() for one, other in pairs)
    assert (trained / "learning_curve.png").exists()
    assert json.loads((trained / "settings.json").read_text())["agents"] == "left,right"


def test_the_settings_of_one_of_them_are_those_of_a_run_of_one_agent(trained):
    of_left = f"--config={trained}/agents/left/settings.json"
    again = config.parse([of_left, "--logdir=again"])
    assert (again.program.agent, again.level.agents) == ("", "")
    assert again.learning.total_environment_frames == 400
    with pytest.raises(UserError, match="--agent=left is one of several agents"):
        config.parse([of_left, "--logdir=again", "--agent=left"])
    several = config.parse([of_left, "--agents=left,right", "--job_name=learner"])
    assert several.program.agent == "left"


def test_one_that_is_trained_plays_on_while_the_other_continues(trained, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    shutil.rmtree(folder / "agents" / "right")
    before = counters(folder, "left")
    train(settings(folder))
    assert counters(folder, "left") == before
    assert counters(folder, "right")["environment_frames"] >= 400
    assert "left is already trained: " in capsys.readouterr().out
    train(settings(folder, total_environment_frames=600))
    for agent in ("left", "right"):
        assert counters(folder, agent)["environment_frames"] >= 600
    printed = capsys.readouterr().out
    assert "left: Resuming from" in printed and "right: Resuming from" in printed


def test_an_agent_that_has_finished_is_not_waited_for():
    def waits(*_: Any) -> None:
        raise AssertionError("no other weights will come")

    intake = Namespace(is_closed=True, wait_for_other=waits)
    part: Any = Namespace(intake=intake, agent=Namespace(settings=Settings(algorithm="a2c")))
    player: Any = None
    assert not local_agents._Turns(part, player, 4).wait()


def test_while_an_agent_writes_its_last_checkpoint_no_actor_waits_for_it(tmp_path, monkeypatch):
    closed, seen = [], []
    close, finish = local_agents.Intake.close, Run.finish

    def closing(intake: Any) -> None:
        closed.append(intake)
        close(intake)

    def finishing(run: Run, *given: Any) -> None:
        seen.append(len(closed))
        finish(run, *given)

    monkeypatch.setattr(local_agents.Intake, "close", closing)
    monkeypatch.setattr(Run, "finish", finishing)
    train(settings(tmp_path))
    assert len(seen) == 2 and min(seen) > 0


def test_a_stop_ends_all_of_them_with_a_checkpoint(tmp_path):
    stop, reported = StopSignal(), set[str]()

    def on_report(figures: dict[str, Any]) -> None:
        reported.add(figures["agent"])
        if reported == {"left", "right"}:
            stop.request("the test")

    endless = settings(tmp_path, total_environment_frames=10**8, report_every_s=0.1)
    outcome = train(endless, stop, on_report)
    assert outcome.reason == "left: the test; right: the test"
    for agent in ("left", "right"):
        assert counters(tmp_path, agent)["environment_frames"] > 0


def test_a_second_ctrl_c_leaves_the_folders_to_nobody_while_learners_write(tmp_path, monkeypatch):
    writes, may_go_on, save = threading.Event(), threading.Event(), Run.save
    joined: list[bool] = []

    def slowly(run: Run, *given: Any) -> bool:
        writes.set()
        assert may_go_on.wait(60)
        return save(run, *given)

    class Interrupted(threading.Thread):
        """A learner's thread; the first one to be waited for is not, for somebody hits Ctrl-C."""

        def join(self, timeout: float | None = None) -> None:
            joined.append(True)
            if len(joined) == 1:
                assert writes.wait(60)
                raise KeyboardInterrupt
            if len(joined) == 2:
                with pytest.raises(UserError, match="in use by another training"):
                    FolderLock(tmp_path / "agents" / "left")
                may_go_on.set()
            super().join(timeout)

    monkeypatch.setattr(Run, "save", slowly)
    own = Namespace(Thread=Interrupted, Lock=threading.Lock)
    monkeypatch.setattr(local_agents, "threading", own)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(settings(tmp_path))
        assert may_go_on.is_set()
    finally:
        may_go_on.set()  # so that no thread is left
    for agent in ("left", "right"):
        assert counters(tmp_path, agent)["environment_frames"] > 0


def test_the_seed_of_each_agent_is_one_that_can_be_given(tmp_path):
    largest = settings(tmp_path, seed=2**31 - 1)
    seeds = [one.settings.program.seed for one in seats.agents_of(largest)]
    assert seeds == [2**31 - 1, 0]


@pytest.mark.parametrize(
    ("changes", "alone"),
    [
        ({"replay_share": None, "batch_size": 64}, 16),  # twice the new unrolls of two actors
        ({"level_name": f"{level(Steps)},{level(Tens)}", "product": "inner", "batch_size": 24}, 32),
    ],
)
def test_each_agent_has_as_many_bodies_as_if_it_were_alone(tmp_path, changes, alone):
    chosen = settings(tmp_path, num_actors=2, **{"envs_per_actor": 0, **changes})
    agents = [one for one in seats.agents_of(chosen) if 0 in one.bodies]
    with contextlib.closing(seats.environment_of(agents, chosen, 0)) as environment:
        assert [part.num_envs for part in environment.parts] == [alone] * len(agents)


@pytest.mark.parametrize("algorithm", ["ppo", "a3c"])
def test_agents_of_algorithms_whose_actors_wait(tmp_path, algorithm):
    own: dict[str, Any] = {"minibatches": 2, "epochs": 1} if algorithm == "ppo" else {}
    shared = settings(tmp_path, num_actors=2).flat()
    names = ("level_name", "agents", "logdir", "total_environment_frames", "precision")
    chosen = {name: shared[name] for name in names} | {"xla": "off"}
    train(Settings(algorithm=algorithm, batch_size=8, unroll_length=8, **chosen, **own))
    for agent in ("left", "right"):
        assert counters(tmp_path, agent)["environment_frames"] >= 400


def test_the_run_of_one_agent_keeps_its_folder(tmp_path):
    make_run(tmp_path, level(Steps))
    with pytest.raises(UserError, match="is the run of one agent, and --agents=left,right trains"):
        train(settings(tmp_path))
    assert not (tmp_path / "agents").exists() and not (tmp_path / "settings.json").exists()


def test_the_run_of_several_agents_keeps_its_folder(trained):
    before = (trained / "settings.json").read_bytes()
    with pytest.raises(UserError, match="is the run of --agents=left,right, and this command"):
        train(settings(trained, agents=""))
    assert (trained / "settings.json").read_bytes() == before


def test_agents_that_have_trained_keep_their_bodies(trained):
    before = (trained / "settings.json").read_bytes()
    with pytest.raises(UserError, match="right would play early, whole, and in .* late, never"):
        train(settings(trained, agents="right,left", total_environment_frames=600))
    assert (trained / "settings.json").read_bytes() == before


def test_one_training_of_several_agents_uses_a_folder_at_a_time(tmp_path):
    lock = FolderLock(tmp_path)
    with pytest.raises(UserError, match="is in use by another training"):
        train(settings(tmp_path, agents="one,other"))
    lock.release()
    assert not (tmp_path / "agents").exists()


@pytest.mark.parametrize("text", ["[]", "null", "{", '{"agents": ""}'])
def test_a_folder_whose_settings_name_no_agents_is_of_one_agent(tmp_path, text):
    (tmp_path / "settings.json").write_text(text)
    assert agents_of_run.settings_of(Settings(mode="test", logdir=str(tmp_path)), ()) is None


def test_the_defaults_of_the_algorithm_of_the_run_apply_in_a_test_of_it(tmp_path):
    run = settings(tmp_path, algorithm="tests.trainer.untrained:Mine")
    (tmp_path / "settings.json").write_text(json.dumps(run.flat()))
    found = agents_of_run.settings_of(Settings(mode="test", logdir=str(tmp_path)), ())
    assert found and (found.agent.activation, found.level.num_action_repeats) == ("relu", 4)


def test_agents_in_environments_of_their_own(tmp_path, capsys):
    levels = f"{level(Steps)},{level(Tens)}"
    chosen = settings(tmp_path, level_name=levels, agents="seven,thirty", product="inner")
    train(chosen)
    for agent, value in (("seven", 7), ("thirty", 30)):
        assert read_metrics(tmp_path / "agents" / agent)[-1]["mean_episode_return"] == value
    figures = evaluate(Settings(mode="test", logdir=str(tmp_path), test_num_episodes=2))["levels"]
    means = {name: one["mean"] for name, one in figures.items()}
    assert means == {f"seven on {level(Steps)}": 7, f"thirty on {level(Tens)}": 30}


@pytest.mark.parametrize("product", ["outer", "inner"])
def test_without_a_number_each_agent_has_as_many_bodies_as_alone(tmp_path, product):
    levels = {"outer": SHIFT, "inner": f"{level(Steps)},{level(Tens)}"}[product]
    chosen = Settings(
        level_name=levels, agents="one,other", product=product, algorithm="ppo", batch_size=8
    )
    agents = seats.agents_of(chosen)
    played = dict.fromkeys([agent.name for agent in agents], 0)
    for index in range(chosen.actors.num_actors):
        there = [agent for agent in agents if index % len(chosen.level.levels) in agent.bodies]
        with contextlib.closing(seats.environment_of(there, chosen, index)) as environment:
            for agent, part in zip(there, environment.parts, strict=True):
                played[agent.name] += part.num_envs
    assert played == {"one": 8, "other": 8}  # so that they fill a batch


@pytest.mark.parametrize("envs", [0, 8])
def test_an_agent_is_ahead_of_its_learner_by_its_own_bodies_only(tmp_path, envs):
    chosen = settings(tmp_path, envs_per_actor=envs)
    agents = seats.agents_of(chosen)
    with contextlib.closing(seats.environment_of(agents, chosen, 0)) as environment:
        played = [part.num_envs for part in environment.parts]
    counted = [sizes.unrolls_per_actor(one.settings, one.spec.num_bodies) for one in agents]
    assert counted == played


def test_custom_seats_and_an_agent_on_two_levels(tmp_path):
    chosen = settings(
        tmp_path,
        level_name=f"{level(Steps)},{level(Tens)},{SHIFT}",
        agents="first,second",
        product="custom",
        bodies="[[0,0,0],[0,1,0],[1,2,0],[1,2,1],[1,2,2],[1,2,3]]",
        num_actors=3,
    )
    first, second = seats.agents_of(chosen)
    assert first.settings.level.levels == [level(Steps), level(Tens)]
    assert first.settings.actors.num_actors == 2 and first.own_level(1) == 1
    assert second.settings.level.levels == [SHIFT] and second.bodies == {2: (0, 1, 2, 3)}
    assert (first.settings.program.seed, second.settings.program.seed) == (1, 2)


def test_an_environment_that_breaks_ends_all_with_an_error(tmp_path):
    levels = f"{level(Steps)},{level(Breaks)}"
    with pytest.raises(ActorFailed, match=f"actor 1, which plays {level(Breaks)}"):
        train(
            settings(
                tmp_path,
                level_name=levels,
                agents="a,b",
                product="inner",
                total_environment_frames=10**6,
            )
        )


def report(folder: Path, **changes: Any) -> dict[str, Any]:
    flags: dict[str, Any] = {"mode": "test", "logdir": str(folder), "test_num_episodes": 3}
    return evaluate(Settings(**flags | changes))["levels"]


def test_trained_agents_play_each_other_and_have_returns_of_their_own(trained):
    figures = report(trained)
    returns = {
        agent: {body: of["returns"] for body, of in mine["bodies"].items()}
        for agent, mine in figures.items()
    }
    assert returns == {
        "left": {"early": [3.0] * 3, "whole": [21.0] * 3},
        "right": {"late": [15.0] * 3},
    }


def test_random_play_of_several_agents_is_random(trained, monkeypatch):
    drawn, draw = [], RandomActions.draw

    def counted(*given: Any, **more: Any) -> np.ndarray:
        drawn.append(given)
        return draw(*given, **more)

    monkeypatch.setattr(RandomActions, "draw", counted)
    assert set(report(trained, test_policy="random")) == {"left", "right"}
    assert drawn


def test_one_of_them_plays_against_an_opponent(trained):
    for opponent in ("random", str(trained / "agents" / "left")):
        assert set(report(trained, agent="right", opponent=opponent)) == {"right"}


def test_the_video_is_of_an_agent_that_is_trained_and_is_there_if_it_is_named(
    tmp_path, capsys, monkeypatch
):
    levels = ["tests.trainer.untrained:Continuous", "CartPole-v1"]
    for name, played in zip(["first", "second"], levels, strict=True):
        make_run(tmp_path / "agents" / name, played)
    record = {"agents": "first,second", "product": "inner", "level_name": ",".join(levels)}
    (tmp_path / "settings.json").write_text(json.dumps(record))
    path = tmp_path / "game.mp4"
    chosen: dict[str, Any] = {"agent": "second", "opponent": "random", "video": str(path)}
    with files_limited_to(6000):
        report(tmp_path, **chosen)
    printed = capsys.readouterr().out
    assert f"warning: {path} could not be written" in printed and "Video: " not in printed
    noted, play_level = list[int](), agents_of_run.play_level

    def note_and_play(*given: Any) -> Any:
        noted.append(given[2])
        return play_level(*given)

    monkeypatch.setattr(agents_of_run, "play_level", note_and_play)
    [figures] = report(tmp_path, **chosen).values()
    assert noted == [1]  # in the other level there is only the opponent
    assert f"Video: {path}" in capsys.readouterr().out
    assert len(frames(path)) == figures["lengths"][0] + 1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"agent": "left"}, "expected both --agent"),
        ({"opponent": "random"}, "expected both --agent"),
        ({"agent": "middle", "opponent": "random"}, "does not name it"),
        ({"grid": "noops=0"}, "--grid is for one agent"),
        ({"checkpoint": "zoo:pong"}, "newest, best or a number of frames"),
    ],
)
def test_what_they_cannot_do_in_a_test_is_refused(trained, changes, text):
    with pytest.raises(UserError) as error:
        report(trained, **changes)
    assert text in str(error.value) and "\n" not in str(error.value)


def test_an_agents_folder_is_that_of_a_run_of_its_own(trained):
    figures = report(trained / "agents" / "left")[SHIFT]
    assert set(figures["bodies"]) == {"early", "whole", "late"}
