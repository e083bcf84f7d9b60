"""What comes out: benchmark figures with known answers, the page in a browser, HParams."""

import contextlib
import csv
import dataclasses
import json
import shutil
import subprocess
import urllib.request

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams import api_pb2, metadata

from lab.actions import looking
from lab.results import (
    benchmark,
    compare,
    graphs,
    hparams,
    random_play,
    scoring,
    standards,
    tables,
)
from lab.results.curves import Curve, curve_of, spread
from lab.specs import spec as specs
from lab.specs.meta import Standard
from lab.trials.folder import DONE, FAILED, Experiment, Trial
from tests.browser import Browser
from tests.lab.conftest import Lab
from user_error import UserError


def test_the_interquartile_mean_is_that_of_the_middle_half():
    assert benchmark.interquartile_mean(np.array([0, 1, 2, 100])) == 1.5
    # Of five, the third counts whole and those beside it by three quarters.
    five = benchmark.interquartile_mean(np.array([0.0, 1.0, 2.0, 5.0, 9.0]))
    assert five == pytest.approx((0.75 * 1 + 2 + 0.75 * 5) / 2.5)
    assert benchmark.interquartile_mean(np.array([7.0])) == 7.0
    assert benchmark.interquartile_mean(np.array([3.0, 5.0])) == 4.0


def test_a_policy_lag_of_zero_is_one():
    session = {"final_return": 1.0, "best_return": 1.0}
    reports = [[{"wall_time": 1.0, "policy_lag": lag} for lag in (None, 0.0, 0.0, 0.0, 1.0)]]
    assert compare.over_seeds([session], reports)["policy lag"] == "0.000"


def test_sessions_whose_reports_were_removed_are_compared_without_them():
    figures = {"final_return": 1.0, "best_return": 2.0}
    found = compare.over_seeds([figures, figures], [[], [{"wall_time": 2.0, "agent_steps": 10}]])
    assert found["agent steps/s"] == "5.000" and found[compare.BEST] == "2.000 (2.000 – 2.000)"
    assert compare.over_seeds([figures], [[]])["agent steps/s"] is None


def test_an_interval_is_as_wide_as_the_seeds_differ():
    same = [np.array([1.0, 1.0, 1.0])]
    assert benchmark.interval(same, lambda drawn: float(drawn[0].mean())) == (1.0, 1.0)
    low, high = benchmark.interval(
        [np.array([0.0, 1.0])], lambda drawn: float(np.concatenate(drawn).mean())
    )
    assert (low, high) == (0.0, 1.0)


def test_one_seed_of_a_level_has_no_interval():
    two = [np.array([0.0, 1.0]), np.array([0.5, 0.5])]
    assert benchmark.summary(two)["median_low"] is not None
    one = benchmark.summary([*two, np.array([0.5])])
    assert (one["median"], one["median_low"], one["iqm_high"]) == (0.5, None, None)
    assert benchmark.with_interval(one | {"scored": 3, "levels": 3}, "median") == "0.50"
    assert benchmark.with_interval(one | {"scored": 3, "levels": 4}, "iqm").endswith(
        ", 3 of 4 levels"
    )


def test_scores_are_0_for_random_play_and_1_for_a_solved_level():
    assert benchmark.score({"final_return": -20.0}, -20.0, 40.0) == 0.0
    assert benchmark.score({"final_return": 20.0}, -20.0, 40.0) == 1.0
    assert benchmark.score({"final_return": 40.0}, -20.0, 40.0) == 1.5


def test_the_standards_of_levels():
    level = standards.level_of(["CartPole-v1"], 20.0, Standard())
    assert level.solved_return == 475.0 and level.has_standard
    assert standards.level_of(["Humanoid-v5"], 120.0, Standard()).has_standard
    assert standards.level_of(["PongNoFrameskip-v4"], -20.0, Standard()).solved_return == 14.6
    assert not standards.level_of(["Pendulum-v1"], -1200.0, Standard()).has_standard
    own = Standard(solved_return=-200.0, solved_frames=1e5)
    assert standards.level_of(["Pendulum-v1"], -1200.0, own).has_standard
    for solved in (-1200.0, -1300.0):  # no way up leads there
        own = Standard(solved_return=solved, solved_frames=1e5)
        assert not standards.level_of(["Pendulum-v1"], -1200.0, own).has_standard
    both = standards.level_of(["CartPole-v1", "Catch-v0"], 10.0, Standard())
    assert both.solved_return == pytest.approx((475 + 0.9) / 2)


@pytest.mark.parametrize("name", standards.SETS)
def test_every_level_of_a_set_exists(name):
    from environments.names import find

    assert all(find(level) for level in standards.SETS[name])
    assert len(standards.SETS[name]) == int("".join(filter(str.isdecimal, name)) or 4)


@pytest.mark.parametrize("name", standards.SETS)
def test_every_level_of_a_set_has_a_score(name):
    for level in standards.SETS[name]:
        found = standards.level_of([level], -1000.0, Standard())
        assert found.has_standard, level


def test_levels_and_bodies_are_rows_of_a_session(tmp_path):
    names = ("A-v0:x", "A-v0:y", "B-v0:x")
    row = {"environment_frames": 5, "mean_episode_return": 2.0}
    row |= {f"mean_episode_return/{name}": float(place) for place, name in enumerate(names)}
    tables.write_session(tmp_path / "f.csv", [row], ["A-v0", "B-v0"])
    assert (tmp_path / "f.csv").read_text() == (
        "a,e,b,body,environment_frames,mean_episode_return\n"
        "0,0,0,A-v0:x,5,0\n0,0,1,A-v0:y,5,1\n0,1,0,B-v0:x,5,2\n"
    )
    tables.write_session(tmp_path / "f.csv", [{"environment_frames": 5}], ["A-v0"])
    assert (tmp_path / "f.csv").read_text() == "a,e,b,environment_frames\n0,0,0,5\n"


@pytest.mark.parametrize(
    ("standard", "words"),
    [
        ({"solved_return": -1200.0}, "solved_return: found -1200; expected more than -1200, the"),
        ({"solved_return": -1300.0}, "solved_return: found -1300; expected more than -1200, the"),
        ({}, "objective: found fitness; expected another, or"),
    ],
)
def test_a_standard_that_would_reward_bad_play_is_refused(standard, words, tmp_path):
    file = tmp_path / "known.json"
    file.write_text(json.dumps({"Pendulum-v1": {"return": -1200.0}}))

    def check(given):
        meta = {"objective": "fitness", "standard": {"solved_frames": 1e5} | given}
        spec = specs.parse("mine", {"level": "Pendulum-v1", "meta": meta}, "f")
        experiment = Experiment.create(spec, "search", tmp_path, {})
        scoring.check_standard(experiment, [], random_play.RandomPlay(file))

    with pytest.raises(UserError, match=words) as told:
        check(standard)
    assert "\n" not in str(told.value)
    check({"solved_return": -200.0})


@pytest.mark.parametrize(
    ("level", "words"),
    [("Pendulum-v1", "found fitness; expected another: when Pendulum-v1, which is"), ("", "")],
)
def test_fitness_is_refused_where_a_searched_level_has_none(level, words, tmp_path):
    file = tmp_path / "known.json"
    file.write_text(json.dumps({"CartPole-v1": {"return": 20.0}}))
    levels = ["CartPole-v1", "CartPole-v1, Acrobot-v1", *([level] if level else [])]
    content = {"level": "CartPole-v1", "meta": {"objective": "fitness"},
               "settings": {"num_actors": 2}, "search": {"level__choice": levels}}  # fmt: skip
    experiment = Experiment.create(specs.parse("mine", content, "f"), "search", tmp_path, {})
    refused = pytest.raises(UserError, match=words) if words else contextlib.nullcontext()
    with refused:
        scoring.check_standard(experiment, [], random_play.RandomPlay(file))


def test_a_best_return_of_0_is_better_than_one_below(tmp_path, monkeypatch, capsys):
    spec = specs.parse("mine", {"level": "CartPole-v1"}, "f")
    experiment = Experiment.create(spec, "train", tmp_path, {})
    returns = [{"best_return": one} for one in (-5.0, 0.0, None)]
    results = {"objective": 1.0, "sessions": returns}
    trial = Trial(0, "single", dict(spec.settings), [1, 2, 3], state="done", results=results)
    experiment.save(trial)
    for session in experiment.sessions(trial):
        (session.folder / "checkpoints").mkdir(parents=True)
        (session.folder / "checkpoints" / "best.npz").touch()
    done: subprocess.CompletedProcess[bytes] = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(looking.subprocess, "run", lambda *_, **__: done)
    assert looking.enjoy(str(experiment.folder), tmp_path, []) == 0
    assert capsys.readouterr().out.startswith("t0 s1, seed 2: ")


def test_what_stands_between_dollars_is_no_formula(tmp_path):
    odd = r"a=$\none$"
    row = {"environment_frames": 10, "wall_time": 1.0, "updates": 1, "episodes": 5}
    rows = [row | {"mean_episode_return": 2.0, f"mean_episode_return/{odd}": 2.0}]
    graphs.write_session(tmp_path / "session.png", rows, odd)
    graphs.write_trial(tmp_path / "trial.png", [curve_of(rows)], odd)
    results = {"objective": 1.0, "v1": None, "v4": None, "fitness": 1.0}
    trials = [
        Trial(place, "proposed", {}, [1], {"env_kwargs": value}, state="done", results=results)
        for place, value in enumerate((odd, "b"))
    ]
    graphs.write_experiment(tmp_path / "experiment.png", trials, odd)
    figure = Figure()
    graphs.draw_spread(figure, {odd: [curve_of(rows)], "b": [curve_of(rows)]})
    graphs.save(figure, tmp_path / "compared.png")
    assert len(list(tmp_path.glob("*.png"))) == 4


def test_a_mean_is_drawn_only_where_all_sessions_have_a_return(tmp_path):
    def curve(*frames: float) -> Curve:
        every = np.array(frames)
        return Curve(every, every / 100, every / 10, every, every)

    early, late, long = curve(1000.0, 3000.0), curve(5000.0, 9000.0), curve(2000.0, 9000.0)
    grid, low, mean, high = spread([early, long])
    assert (grid[0], grid[-1], mean[0]) == (2000.0, 3000.0, 200.0) and (low <= high).all()
    assert [len(one) for one in spread([early, late], "seconds")] == [0, 0, 0, 0]
    graphs.write_trial(tmp_path / "trial.png", [early, late], "none in common")
    assert (tmp_path / "trial.png").exists()


def test_a_table_keeps_every_frame(tmp_path):
    tables.write(tmp_path / "a.csv", ["frames"], [{"frames": 123_456_789.0}])
    assert (tmp_path / "a.csv").read_text() == "frames\n123456789\n"


def test_a_table_in_markdown_has_a_dash_for_what_is_not_known():
    text = tables.markdown(["a", "b"], [{"a": 1.23456, "b": None}, {"a": 13455.2, "b": 2}])
    assert text.splitlines()[-2:] == ["| 1.235 | – |", "| 13,455 | 2 |"]


SMALL = {"resources": {"memory_gb": 0.1}}


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> Lab:
    """A finished search with two sessions a trial, one of whose trials has failed."""
    lab = Lab(tmp_path_factory.mktemp("searched"))
    spec = lab.write(
        {
            "level": "CartPole-v1",
            "description": "</script><b>bold</b>",
            "settings": {"total_environment_frames": 1000, "tell_bodies": "mark"},
            "meta": {"search": "grid", "finalists": 1, "sessions": 2} | SMALL,
            "search": {"settings": {"learning_rate": [0.0005, 0.003], "reporters": ["", "raises"]}},
        }
    )  # fmt: skip
    lab.run("search", spec, "--data=data", code=1)
    return lab


def test_the_page_works_in_a_browser_and_asks_for_nothing(searched):
    with Browser() as browser:
        browser.open(f"file://{searched.only}/index.html")
        assert browser.evaluate("document.getElementById('winner').textContent").startswith(
            "Winner"
        )
        rows = "[...document.querySelectorAll('tbody tr')]"
        assert browser.evaluate(f"{rows}.length") == 6
        assert browser.evaluate("document.querySelectorAll('#curves path.trial').length") == 4
        assert browser.evaluate("document.querySelectorAll('#parallel path.trial').length") == 4
        first = f"{rows}[0].cells[0].textContent"
        heading = "[...document.querySelectorAll('th')].find(one => one.textContent === 'trial')"
        browser.evaluate(f"{heading}.click()")
        assert browser.evaluate(first) == "t0"
        browser.evaluate(f"{heading}.click()")
        assert browser.evaluate(first) == "t5"
        browser.evaluate(f"{rows}[0].click()")
        assert browser.evaluate("document.querySelectorAll('path.trial.on').length") == 2
        # The bodies are those of the trial that is marked.
        assert browser.evaluate("document.querySelectorAll('#bodies path.body').length") == 2
        whose = browser.evaluate("document.getElementById('whose').textContent")
        assert whose.startswith("t5 ") and "agent_0" in whose and "agent_1" in whose
        # What people write is text, never part of the page.
        assert browser.evaluate("document.querySelectorAll('b').length") == 0
        assert "<b>bold</b>" in browser.evaluate("document.getElementById('about').textContent")
        assert [url for url in browser.requests if not url.startswith("file://")] == []


def test_tables_and_graphs_of_all_kinds_are_there(searched):
    folder, trials = searched.only, searched.only / "trials"
    for picture in (folder / "mine_experiment_graph.png", trials / "mine_t0_trial_graph.png",
                    trials / "mine_t0_s1_session_graph.png"):  # fmt: skip
        with Image.open(picture) as image:
            assert image.width > 300
    with open(folder / "mine_experiment_df.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["state"] for row in rows} == {"done", "failed"}
    assert rows[-1]["reason"].endswith("the level has raised something")
    with open(trials / "mine_t0_s0_session_df.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:4] == ["a", "e", "b", "body"]
    assert [(row["a"], row["e"], row["b"], row["body"]) for row in rows[:2]] == [
        ("0", "0", "0", "agent_0"),
        ("0", "0", "1", "agent_1"),
    ]
    first, second = (float(row["mean_episode_return"]) for row in rows[:2])
    assert second == pytest.approx(3 * first) and len(rows) == 20
    with open(trials / "mine_t0_trial_fitness_df.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["session"] for row in rows] == ["0", "1", "trial"]
    assert [row["seed"] for row in rows] == ["1", "2", ""]
    frozen = json.loads((folder / "spec.json").read_text())["mine"]["frozen"]
    assert frozen["seeds"] == [1, 2] and frozen["commit"] and frozen["versions"]["tensorflow-cpu"]


def test_all_trials_of_one_are_compared_and_the_best_of_them_drawn(searched, tmp_path, monkeypatch):
    drawn: list[int] = []
    draw = compare.graphs.draw_spread
    monkeypatch.setattr(compare, "DRAWN", 2)

    def count_and_draw(figure, groups):
        drawn.append(len(groups))
        draw(figure, groups)

    monkeypatch.setattr(compare.graphs, "draw_spread", count_and_draw)
    assert compare.compare([str(searched.only)], tmp_path / "compared", None) == 0
    with open(tmp_path / "compared.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 4
    assert drawn == [2]


def test_the_graph_command_writes_everything_anew(searched):
    (searched.only / "index.html").unlink()
    searched.run("graph", str(searched.only))
    assert (searched.only / "index.html").stat().st_size > 10_000


def test_tensorboard_finds_every_session_in_hparams(searched):
    from tensorboard import program

    board = program.TensorBoard()
    board.configure(argv=[None, f"--logdir={searched.only / 'sessions'}", "--port=0"])
    url = board.launch()
    body = {"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS"], "sliceSize": 100}
    request = urllib.request.Request(
        f"{url}data/plugin/hparams/session_groups",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        groups = json.load(answer)["sessionGroups"]
    rates = {group["hparams"]["learning_rate"] for group in groups}
    assert rates == {0.0005, 0.003, 0.0006} and len(groups) == 4


@pytest.mark.parametrize("state", [DONE, FAILED])
def test_tensorboard_is_told_of_a_trial_that_failed(searched, tmp_path, state):
    experiment = Experiment(shutil.copytree(searched.only, tmp_path / "copy"))
    trial = dataclasses.replace(experiment.trials()[0], state=state)
    session = experiment.sessions(trial)[0]
    hparams.write(experiment, trial, session)
    [told] = [
        metadata.parse_session_end_info_plugin_data(value.metadata.plugin_data.content).status
        for event in EventFileLoader(str(session.folder / hparams.NAME)).Load()
        for value in event.summary.value
        if value.tag == metadata.SESSION_END_INFO_TAG
    ]
    assert told == (api_pb2.STATUS_FAILURE if state == FAILED else api_pb2.STATUS_SUCCESS)
