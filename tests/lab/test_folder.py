"""Folders of experiments, and the records in them."""

from lab.commands import main
from lab.specs import spec as specs
from lab.trials import plan
from lab.trials.folder import Experiment


def created(data):
    """A new experiment."""
    return Experiment.create(specs.parse("mine", {"level": "Catch-v0"}, "f"), "train", data, {})


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
