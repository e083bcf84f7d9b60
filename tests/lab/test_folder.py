"""Folders of experiments, and the records in them."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.actions import listed, starting
from lab.commands import main
from lab.specs import spec as specs
from lab.trials import folder, plan
from lab.trials.folder import Experiment


def created(data):
    """A new experiment."""
    return Experiment.create(specs.parse("mine", {"level": "Catch-v0"}, "f"), "train", data, {})


def test_labs_that_begin_at_the_same_time_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(folder.time, "strftime", lambda *_: "now")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: created(tmp_path), range(8)))
    assert len({one.folder for one in made}) == len(list(tmp_path.iterdir())) == 8
    assert {one.folder.name for one in made} >= {"mine_now", "mine_now-2", "mine_now-8"}


def test_a_record_that_was_cut_short_is_named_in_one_line(tmp_path, capsys):
    experiment = created(tmp_path)
    [trial] = plan.fixed(experiment)
    experiment.save(trial)
    assert experiment.trials() == [trial]
    record = experiment.trial_file(trial, "trial_data.json")
    record.write_bytes(b"")
    assert main(["status", str(experiment.folder), f"--data={tmp_path}"]) == 2
    said = capsys.readouterr().err
    assert f"{record}: found no record of a trial (" in said and said.count("\n") == 1
    assert f"begin anew with {experiment.folder / 'spec.json'} and --new" in said


def test_a_trial_that_is_to_run_again_has_no_figures_of_its_failure(tmp_path):
    experiment = created(tmp_path)
    [trial] = plan.fixed(experiment)
    trial.state, trial.results = folder.FAILED, {"objective": 5.0, "best_return": 1.0}
    experiment.save(trial)
    assert main(["retry", str(experiment.folder), f"--data={tmp_path}"]) == 0
    assert experiment.trials() == plan.fixed(experiment)


def test_an_experiment_whose_algorithm_is_broken_is_not_in_the_way_of_others(tmp_path, monkeypatch):
    good, broken = created(tmp_path), created(tmp_path)
    (tmp_path / "my_marking_algorithm.py").write_text(
        "from pathlib import Path\nPath(__file__).with_suffix('.read').touch()\nraise KeyError"
    )
    monkeypatch.syspath_prepend(tmp_path)
    written = json.loads((broken.folder / "spec.json").read_text())["mine"]
    written["algorithm"] = "my_marking_algorithm:Mine"
    (broken.folder / "spec.json").write_text(json.dumps({"other": written}))
    assert [one.folder for one in folder.find(tmp_path, {"mine"})] == [good.folder]
    assert not (tmp_path / "my_marking_algorithm.read").exists()  # nothing of it ran
    assert [one.folder for one in folder.find(tmp_path)] == [good.folder]
    assert (tmp_path / "my_marking_algorithm.read").exists()


def test_a_folder_in_a_list_is_that_experiment_and_no_newer_one(tmp_path, monkeypatch, capsys):
    old, new = created(tmp_path), created(tmp_path)
    new.finish({"state": "finished"})
    many, started = tmp_path / "many.json", list[str]()

    def start(mode, argument, options, levels):
        started.append(argument)
        return 0

    def run(**modes: str) -> int:
        listed = {str(one.folder): modes[name] for name, one in (("old", old), ("new", new))}
        many.write_text(json.dumps(listed))
        return main(["run", str(many), f"--data={tmp_path}"])

    monkeypatch.setattr(listed, "start", start)
    assert run(old="train", new="train") == 0
    assert started == [str(old.folder)]
    assert capsys.readouterr().out == f"{new.folder} is finished.\n"
    assert run(old="train", new="dev") == 2  # before the first one starts
    assert f"{new.folder}: found an experiment of bin/lab train" in capsys.readouterr().err
    assert started == [str(old.folder)]


@pytest.mark.parametrize("stopped", ["one", "two"])
@pytest.mark.parametrize("more", [[], ["--new"]])
def test_another_round_of_a_list_goes_on_as_a_round(tmp_path, monkeypatch, stopped, more):
    names, started = ("one", "two"), list[str]()
    (tmp_path / "specs.yaml").write_text("".join(f"{one}: {{level: Catch-v0}}\n" for one in names))
    many, data = tmp_path / "many.yaml", tmp_path / "data"
    many.write_text("specs.yaml: {one: train, two: train}")
    stops_at = ""

    def start(mode, argument, options, levels):
        started.append(argument.rpartition(":")[2])
        experiment = starting._of_spec(mode, argument, options, levels)
        if started[-1] == stops_at:
            return 128 + signal.SIGTERM
        experiment.finish({"state": "finished"})
        return 0

    def run(*words):
        started.clear()
        code = main(["run", str(many), f"--data={data}", *words])
        return [code, *started]

    monkeypatch.setattr(listed, "start", start)
    assert run() == [0, "one", "two"]
    stops_at = stopped
    at = names.index(stopped)
    assert run(*more) == [128 + signal.SIGTERM, *names[: at + 1]]
    stops_at = ""
    assert run() == [0, *names[at:]]
    assert run() == [0, "one", "two"]


def test_what_only_goes_on_or_plays_is_not_kept_of_every_trial(tmp_path):
    experiment = created(tmp_path)
    [session] = experiment.sessions(plan.fixed(experiment)[0])
    for name in ("checkpoints/best.npz", "replay/steps.npy", "metrics.jsonl"):
        path = session.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    session.shrink()
    assert [path.name for path in session.folder.iterdir()] == ["metrics.jsonl"]
