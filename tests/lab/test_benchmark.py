"""What a benchmark shows: a panel for each level, its scores on the page."""

import itertools
import json
import os
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lab.results import (
    benchmark,
    compare,
    graphs,
    scoring,
    writing,
)
from lab.results.curves import curve_of, thinned
from lab.running.progress import Progress
from lab.running.runner import Runner
from lab.running.slots import Here
from lab.specs import spec as specs
from lab.trials import plan, sessions
from lab.trials.folder import DONE, Experiment
from tests.browser import Browser

GAMES = ("BeamRider", "Breakout", "Enduro", "Freeway", "MsPacman", "Qbert", "Seaquest")


@pytest.fixture
def games(tmp_path) -> Experiment:
    """Two specs on Atari games: one game has no returns, one still runs with the first spec."""
    levels = [f"{game}NoFrameskip-v4" for game in GAMES]
    contents = {name: {"level": levels[1], "meta": {"sessions": 2}} for name in ("mine", "other")}
    spec = specs.parse("games", contents["mine"], "f")
    experiment = Experiment.create(
        spec, "benchmark", tmp_path, {"specs": contents, "levels": levels}
    )
    known = {one: {"return": 10.0, "deviation": 1.0, "episodes": 100} for one in levels}
    (experiment.folder / "random_play.json").write_text(json.dumps(known))
    for trial in plan.fixed(experiment)[:-1]:  # the last one has not begun
        game = trial.number % len(GAMES)
        for place, session in enumerate(experiment.sessions(trial)):
            session.folder.mkdir(parents=True)
            rows = [
                {
                    "environment_frames": 1000 * step, "wall_time": 1.0 * step, "updates": step,
                    "episodes": 100 * step, "recent_episodes": 100,
                    "mean_episode_return": 4.0 * step**game + place if game else None,
                }
                for step in range(1, 6)
            ]  # fmt: skip
            (session.folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
        if game < len(GAMES) - 1:
            curves = [curve_of(one.rows()) for one in experiment.sessions(trial)]
            random = scoring.random_play(experiment)
            trial.results = scoring.score(experiment, trial, curves, random)
            trial.state = DONE
        experiment.save(trial)
    return experiment


def test_a_benchmark_has_a_panel_for_each_level(games, monkeypatch):
    drawn: list[Figure] = []
    monkeypatch.setattr(graphs, "save", lambda figure, path: drawn.append(figure))
    benchmark.draw(games, games.trials(), games.file("experiment_graph.png"))
    panels = [axes for axes in drawn[0].axes if axes.axison]
    assert [axes.get_title() for axes in panels] == [f"{game}NoFrameskip-v4" for game in GAMES]
    assert not panels[0].lines and panels[-1].lines  # also of what still runs
    # Each has a scale of its own, whatever a human gets there.
    assert panels[1].get_ylim()[1] < 30.5 and panels[3].get_ylim()[1] > 500
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["mine", "other"]
    canvas = FigureCanvasAgg(drawn[0])
    canvas.draw()
    boxes = [axes.title.get_window_extent() for axes in panels]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_levels_of_a_benchmark_are_compared_each_in_a_panel(games, tmp_path, monkeypatch, capsys):
    drawn: list[tuple[Any, ...]] = []
    monkeypatch.setattr(graphs, "write_benchmark", lambda *given: drawn.append(given))
    assert compare.compare([str(games.folder)], tmp_path / "compared", None) == 0
    [(path, levels, _, _)] = drawn
    assert path == tmp_path / "compared.png" and list(levels["EnduroNoFrameskip-v4"]) == [
        "mine", "other"
    ]  # fmt: skip
    assert "| mine on QbertNoFrameskip-v4 | t5 | 2 |" in capsys.readouterr().out


def test_the_page_of_a_benchmark_shows_scores_and_one_level_at_a_time(games):
    writing.write_experiment(games)
    text = games.file("benchmark.md").read_text().splitlines()
    assert text[2].split(" | ")[1:3] == ["–", "0.51 (20.5)"]  # a human has 30.5
    assert text[2].split(" | ")[5:8] == ["0.36 (2,500)", "0.93 (12,500)", "–"]
    with Browser() as browser:
        browser.open(f"file://{games.folder}/index.html")
        cells = "[...document.querySelectorAll('#scores tr')[6].cells].map(one => one.textContent)"
        assert browser.evaluate(cells) == ["QbertNoFrameskip-v4", *["0.93 (12,500)"] * 2]
        told = browser.evaluate("document.getElementById('winner').textContent")
        assert told.startswith("Not finished: 12 of 14 trials have ended")
        lines = "[...document.querySelectorAll('#curves path.trial title')].map(t => t.textContent)"
        assert [one.partition(" · ")[0] for one in browser.evaluate(lines)] == ["t1", "t8"]
        browser.evaluate(
            "(() => { const one = document.querySelector('#axes select');"
            "one.value = 'EnduroNoFrameskip-v4'; one.dispatchEvent(new Event('change')); })()"
        )
        assert [one.partition(" · ")[0] for one in browser.evaluate(lines)] == ["t2", "t9"]
        rows = "document.querySelectorAll('#trials tbody tr').length"
        assert browser.evaluate(rows) == 2 * len(GAMES) - 1


def test_reports_are_read_again_only_of_sessions_that_have_others(games, monkeypatch):
    read, read_metrics = list[str](), sessions.read_metrics

    def note_and_read(folder):
        read.append(folder.name)
        return read_metrics(folder)

    monkeypatch.setattr(sessions, "read_metrics", note_and_read)
    writing.write_experiment(games)
    every = [one.folder.name for trial in games.trials() for one in games.sessions(trial)]
    assert sorted(read) == sorted(every) and len(every) == 26
    read.clear()
    metrics = games.folder / "sessions/t6_s1/metrics.jsonl"
    row = {"environment_frames": 9000, "mean_episode_return": 1.0, "recent_episodes": 100}
    metrics.write_text(metrics.read_text() + json.dumps(row) + "\n")
    writing.write_experiment(games)
    assert read == ["t6_s1"]
    assert '"curves": [[[1000.0, ' in (games.folder / "index.html").read_text()
    assert ", 9000.0], " in (games.folder / "index.html").read_text()


def test_graph_and_page_are_drawn_now_and_then_and_lack_nothing_in_the_end(games, monkeypatch):
    trials, page = games.trials(), games.folder / "index.html"
    for trial in trials[2:]:
        games.trial_file(trial, writing.LAST).touch()
    runner = Runner(games, Here(games.spec.meta.resources), Progress("games"))
    assert runner._write_results() and page.exists()  # the first one at once
    page.write_text("the first")
    assert runner._write_results() and page.read_text() == "the first"
    assert writing.is_written(games, trials[1])
    assert not runner._write_results() and page.read_text() == "the first"
    os.utime(page, (0, 0))
    assert runner._write_results() and page.read_text() != "the first"
    os.utime(page, (0, 0))
    assert not runner._write_results()  # it lacks nothing


def test_of_many_reports_some_are_drawn_and_the_last_is_among_them():
    rows = [{"environment_frames": one, "mean_episode_return": 1.0} for one in range(1, 1802)]
    some = thinned(curve_of(rows), 60)
    assert len(some.frames) <= 60 and some.frames[-1] == 1801 and some.window == 100
    assert thinned(curve_of(rows[:60]), 60).frames[0] == 1
    assert thinned(curve_of([]), 60).is_empty
