"""Searches, lists and benchmarks from start to end."""

import csv
import json
import os
import shutil

import pytest

from lab.specs import spec as specs
from tests.cluster.terminal import Terminal
from tests.lab.conftest import PROJECT, wait_for
from tests.pictures import coloured

REWARD = "sutton_barto_reward=true"


def kept_by(lab, pattern):
    """The trials of which some session has such a file."""
    found = lab.only.glob(f"sessions/*/{pattern}")
    return {str(path.relative_to(lab.only)).split("/")[1].partition("_")[0] for path in found}


def test_a_search_proposes_confirms_and_names_a_winner(lab):
    said = lab.run("search", lab.spec(), "--data=data")
    trials = lab.trials()
    assert [one["kind"] for one in trials] == ["proposed"] * 6 + ["final"] * 2 + ["default"]
    assert all(one["state"] == "done" for one in trials)
    assert all(one["seeds"] == [1] for one in trials[:6])
    assert all(one["seeds"] == [1001, 1002, 1003] for one in trials[6:])
    rates = {one["values"]["learning_rate"] for one in trials[:6]}
    assert len(rates) == 6
    ranked = sorted(trials[:6], key=lambda one: -one["results"]["objective"])
    assert [one["of"] for one in trials[6:8]] == [one["number"] for one in ranked[:2]]
    result = json.loads((lab.only / "experiment_data.json").read_text())
    assert result["confirmed"] and result["winner"] in (6, 7, 8)
    assert f"Winner, with new seeds: t{result['winner']}" in said
    assert result["default_objective"] == trials[8]["results"]["objective"]
    # meta.keep: the winner and two others, although three trials with lucky seeds beat it.
    kept = kept_by(lab, "checkpoints/*.npz")
    assert len(kept) == 3 and f"t{result['winner']}" in kept
    beaten = trials[result["winner"]]["results"]["objective"]
    assert sum(one["results"]["objective"] > beaten for one in trials) >= 3
    assert kept_by(lab, "events.out.tfevents.1") == kept
    assert kept_by(lab, "events.out.tfevents.0.hparams") == {f"t{number}" for number in range(9)}
    for log in lab.only.glob("sessions/*/train.log"):
        whole = log.parent.name.partition("_")[0] in kept
        assert log.read_text().endswith("the last line\n")
        assert log.stat().st_size > 70_000 if whole else log.stat().st_size <= 20_000
    with open(lab.only / "mine_experiment_df.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    objectives = [float(row["objective"]) for row in rows]
    assert objectives == sorted(objectives, reverse=True) and len(rows) == 9
    for ending in ("t0_s0_session_df.csv", "t0_s0_session_graph.png", "t8_trial_fitness_df.csv"):
        assert (lab.only / "trials" / f"mine_{ending}").stat().st_size > 100
    assert coloured(lab.only / "mine_experiment_graph.png") > 0
    assert "t0" in lab.run("status", "--data=data")
    # Without its checkpoints another trial is played, which is said.
    winner = f"t{result['winner']}"
    for folder in lab.only.glob(f"sessions/{winner}_s*/checkpoints"):
        shutil.rmtree(folder)
    said = lab.run("enjoy", "--data=data", "--", "--nothing=2", code=2)
    assert f"No checkpoint of {winner}, which did better.\nt" in said


def test_a_terminal_shows_all_running_sessions_in_a_panel(lab):
    spec = lab.write(
        {"level": "CartPole-v1", "settings": {"total_environment_frames": 2000},
         "meta": {"search": "grid", "finalists": 0, "resources": {"memory_gb": 0.1}},
         "search": {"settings": {"learning_rate": [0.0006, 0.001, 0.002]}}}
    )  # fmt: skip
    env = os.environ | {"PYTHONPATH": str(PROJECT), "TERM": "xterm", "COLUMNS": "120"}
    with Terminal(
        lab.command("search", spec, "--data=data", "--cores=1"), lab.folder, env
    ) as shown:
        for text in ("mine · search", "t1_s0", "learning_rate 0.001", "━", "1 of 3 trials ended",
                     "best t0 ", " left", "t2 done · fitness"):  # fmt: skip
            shown.wait_for(text)
        assert shown.wait() == 0
        assert "Best trial: t0" in shown.shown and "started" not in shown.shown


@pytest.mark.parametrize("sessions", [1, 2])
def test_trials_that_lag_behind_end_early(lab, sessions):
    """Also by the session that runs, while others wait for room."""
    content = {
        "level": "CartPole-v1",
        "settings": {"keep_checkpoints": 1},  # and frames as the trainer chooses
        "meta": {"search": "grid", "finalists": 0, "early_stopping": "halving",
                 "sessions": sessions, "resources": {"memory_gb": 0.1}},
        "search": {"settings": {"learning_rate": [0.0006, 0.003, 0.004, 0.005]}},
    }  # fmt: skip
    alone = [] if sessions == 1 else ["--cores=1"]
    said = lab.run("search", lab.write(content), "--data=data", *alone)
    trials = lab.trials()
    early = [one for one in trials if one["state"] == "stopped early"]
    assert early and "% of its frames" in said
    waited = {f"t{one['number']}_s1" for one in early}
    assert not waited & set(lab.starts())
    assert trials[0]["state"] == "done"  # the best


@pytest.mark.timeout(600)
def test_many_experiments_run_from_one_file(lab):
    (lab.folder / "specs.json").write_text(
        json.dumps({name: {"level": "CartPole-v1", "settings": {"total_environment_frames": 500},
                           "meta": {"resources": {"memory_gb": 0.1}}} for name in ("one", "two")})
    )  # fmt: skip
    many = lab.folder / "experiments.json"
    many.write_text(json.dumps({"specs.json": {"one": "train", "two": "trian"}}))
    refused = lab.run("run", str(many), "--data=data", code=2)
    assert 'specs.json.two: found "trian"; expected a mode, such as ' in refused
    assert refused.endswith("Did you mean train?\n")
    assert not lab.data.exists()
    many.write_text(json.dumps({"specs.json": "train classic"}))
    assert 'specs.json: found "train classic"; expected' in lab.run("run", str(many), code=2)
    many.write_text(json.dumps({"specs.json": {"one": "train", "two": "dev"}}))
    said = lab.run("run", str(many), "--data=data", "--detach")
    assert "its output is in data/experiments.log" in said
    log = lab.data / "experiments.log"
    wait_for(lambda: log.exists() and log.read_text().count("Look at ") == 2, 300)
    assert len(list(lab.data.glob("*/experiment_data.json"))) == 2
    # One after the other, with both cores for each.
    first, second = sorted(lab.data.glob("*/"))
    ended = (first / "experiment_data.json").stat().st_mtime
    assert json.loads((second / "sessions/t0_s0/session.json").read_text())["started"] >= ended
    names = sorted(path.name.partition("_20")[0] for path in lab.data.glob("*/"))
    assert names == ["one", "two_dev"]
    # A list that was stopped on its way goes on, and what is finished does not run again.
    (second / "experiment_data.json").unlink()
    said = lab.run("run", str(many), "--data=data")
    assert f"{first.relative_to(lab.folder)} is finished." in said
    assert f"Going on with {second.relative_to(lab.folder)}" in said
    assert len(list(lab.data.glob("*/"))) == 2
    data = str(lab.data)
    said = lab.run("compare", str(first), str(second), f"--out={lab.folder}/both")
    assert "| one | t0 | 1 | CartPole-v1 |" in said and (lab.folder / "both.png").exists()
    lab.run("watch", data, str(lab.folder / "copied"), "--once")
    copied = {path.name for path in (lab.folder / "copied").rglob("*") if path.is_file()}
    assert {"index.html", "metrics.jsonl", "spec.json"} <= copied and "best.npz" not in copied


def test_a_frozen_spec_repeats_an_experiment(lab):
    lab.run("search", lab.spec(trials=3, finalists=0), "--data=data")
    first = lab.trials()
    lab.run("search", str(lab.only / "spec.json"), "--data=again")
    alone = str(lab.only / "trials" / "mine_t1_spec.json")
    lab.run("train", alone, "--data=alone")
    lab.data = lab.folder / "again"
    assert [one["values"] for one in lab.trials()] == [one["values"] for one in first]
    lab.data = lab.folder / "alone"
    assert lab.trials()[0]["results"]["final_return"] == first[1]["results"]["final_return"]


def test_a_benchmark_is_a_table_of_specs_and_levels(lab):
    meta = {"sessions": 2, "resources": {"memory_gb": 0.1}}
    content = {
        name: {"level": "CartPole-v1", "settings": settings | {"total_environment_frames": 500},
               "meta": meta}
        for name, settings in (("slow", {"learning_rate": 0.004}), ("fast", {}))
    }  # fmt: skip
    content["fast"]["by_level"] = {"CartPole-v1": {"env_kwargs": REWARD}}
    content["slow"] |= {"algorithm": "ppo", "by_level": {"Catch-v0": {"clip_ratio": 0.2}}}
    (lab.folder / "peers.json").write_text(json.dumps(content))
    refused = lab.run("benchmark", "peers.json", "--levels=clasic", "--data=data", code=2)
    assert "found clasic; expected a set or levels. Did you mean classic?" in refused
    (lab.folder / "many.json").write_text('{"peers.json": "benchmark CartPole-v1,Catch-v0"}')
    said = lab.run("run", "many.json", "--data=data")
    assert f"Scores: {lab.only.relative_to(lab.folder)}/peers_benchmark_benchmark.md" in said
    measured = json.loads((lab.only / "random_play.json").read_text())
    assert list(measured) == ["CartPole-v1", "Catch-v0", f"CartPole-v1 env_kwargs={REWARD}"]
    text = next(lab.only.glob("*_benchmark.md")).read_text().splitlines()
    assert text[0] == "| spec | CartPole-v1 | Catch-v0 | median | interquartile mean |"
    assert text[2].startswith("| slow | ") and text[3].startswith("| fast | 1.0")
    assert len(lab.trials()) == 4
    for number, one in enumerate(lab.trials()):
        spec = specs.read(lab.only / "trials" / f"peers_benchmark_t{number}_spec.json")
        assert spec.settings == one["settings"] and not spec.by_level
