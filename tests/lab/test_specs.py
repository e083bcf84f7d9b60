"""Specs: what is read, and what is refused in one line that says where and what to do."""

import json

import pytest

from lab.actions import starting
from lab.commands import main
from lab.specs import frozen
from lab.specs import spec as specs
from lab.trials.folder import Experiment
from trainer.machine.launching import PROJECT
from user_error import UserError

FIRST = str(PROJECT / "lab/examples/first.yaml")

GOOD = {
    "level": "CartPole-v1",
    "algorithm": "ppo",
    "agent": "VectorAgent",
    "settings": {"total_environment_frames": "20_000", "learning_rate": 0.001},
    "meta": {"sessions": 2, "trials": 4, "search": "random", "resources": {"cores": 1}},
    "search": {
        "algorithm__choice": ["ppo", "a2c"],
        "settings": {
            "learning_rate__loguniform": [1e-4, 1e-2],
            "unroll_length": [32, 64],
            "epochs__randint": [1, 9],
            "discounting__normal": [0.95, 0.01],
        },
    },
}


def changed(path: str, value, base=GOOD):
    """The good spec with one thing changed; None removes it."""
    found = json.loads(json.dumps(base))
    *keys, last = path.split(".")
    part = found
    for key in keys:
        part = part.setdefault(key, {})
    if value is None:
        del part[last]
    else:
        part[last] = value
    return found


def test_a_spec_is_read():
    spec = specs.parse("mine", GOOD, "f.yaml")
    assert spec.settings["total_environment_frames"] == 20000
    assert spec.settings["agent_name"] == "VectorAgent"
    assert spec.meta.sessions == 2 and spec.meta.keep == 3
    kinds = {one.name: one.kind for one in spec.searched}
    assert kinds["unroll_length"] == "grid_search"
    assert kinds["algorithm"] == "choice"


def test_an_algorithm_may_have_capitals():
    spec = specs.parse("mine", changed("algorithm", "PPO"), "f")
    assert spec == specs.parse("mine", GOOD, "f")


def test_its_content_reads_as_the_same_spec():
    spec = specs.parse("mine", GOOD, "f")
    assert specs.parse("mine", json.loads(json.dumps(spec.content())), "f") == spec


@pytest.mark.parametrize("where", ["level__choice", "settings.level_name"])
def test_levels_are_searched_and_the_content_reads_as_the_same_spec(where, tmp_path):
    content = changed(f"search.{where}", ["CartPole-v1", "Acrobot-v1"])
    content["meta"]["objective"] = "fitness"
    spec = specs.parse("mine", content, "f")
    assert specs.parse("mine", json.loads(json.dumps(spec.content())), "f") == spec
    created = Experiment.create(spec, "search", tmp_path, {})
    assert created.spec.searched == spec.searched


def test_what_compares_levels_that_are_searched_is_refused():
    content = changed("search.level__choice", ["CartPole-v1", "Acrobot-v1"])
    for key, value, words in (
        ("objective", "auto", 'meta.objective: found "auto"; expected fitness or strength or'),
        ("early_stopping", "halving", 'meta.early_stopping: found "halving"; expected none: le'),
        ("standard", {"solved_return": 9}, 'meta.standard: found {"solved_return": 9.0, "solved_f'),
    ):
        content["meta"] = {"objective": "fitness", key: value}
        with pytest.raises(UserError) as told:
            specs.parse("mine", content, "f")
        assert words in str(told.value) and "\n" not in str(told.value)


def test_a_preset_is_a_base():
    spec = specs.parse("mine", {"preset": "cartpole", "settings": {"batch_size": 16}}, "f")
    assert spec.levels == ["CartPole-v1"]
    assert spec.settings["batch_size"] == 16 and spec.settings["envs_per_actor"] == 10


def test_levels_are_trained_together():
    spec = specs.parse("mine", {"levels": ["CartPole-v1", "Acrobot-v1"]}, "f")
    assert spec.levels == ["CartPole-v1", "Acrobot-v1"]


@pytest.mark.parametrize("levels", [[], "CartPole-v1", [1]])
def test_what_is_no_list_of_levels_is_refused(levels):
    with pytest.raises(UserError, match="f: mine.levels: found .*; expected a list of levels"):
        specs.parse("mine", {"levels": levels}, "f")


def test_numbers_that_yaml_reads_as_text_are_ends_of_ranges(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text(
        "mine: {level: CartPole-v1, search: {settings: {learning_rate__loguniform: [1e-4, 1e-2], "
        "discounting__normal: [9e-1, 1e-2], batch_size__randint: [1, 1e2]}}}"
    )
    found = {one.name: one.values for one in specs.read(file).searched}
    expected = {"learning_rate": (1e-4, 1e-2), "discounting": (0.9, 0.01), "batch_size": (1, 99)}
    assert found == expected


def test_a_benchmark_has_settings_by_level():
    content = GOOD | {"by_level": {"Acrobot-v1": {"learning_rate": 0.01}}}
    spec = specs.parse("mine", content, "f")
    assert specs.parse("mine", json.loads(json.dumps(spec.content())), "f") == spec
    for level, rate in (("Acrobot-v1", 0.01), ("CartPole-v1", 0.001)):
        one = specs.for_level("mine", spec.content(), level, "f")
        assert one.levels == [level] and one.settings["learning_rate"] == rate
        assert one.settings["total_environment_frames"] == 20_000 and not one.searched


def test_a_frozen_spec_repeats_itself():
    spec = specs.parse("mine", GOOD, "f")
    written = frozen.freeze(spec, "search", {})
    again = specs.parse("mine", json.loads(json.dumps(written))["mine"], "spec.json")
    assert again.content() == spec.content()
    assert again.frozen["seeds"] == [1, 2] and again.frozen["final_seeds"] == [1001, 1002, 1003]
    assert again.frozen["mode"] == "search" and again.frozen["versions"]["optuna"]
    assert frozen.changes(again) == "" and frozen.changes(spec) == ""
    again.frozen["versions"]["optuna"] = "1"
    assert "optuna 1 → " in frozen.changes(again)


def test_an_experiment_of_an_earlier_version_can_be_read():
    written = specs.parse("mine", GOOD, "f").content() | {"frozen": {"seeds": [1]}}
    written["settings"] |= {"num_videos": 2, "watch": False, "report_every_s": 300}
    spec = specs.parse("mine", written, "spec.json")
    assert spec.settings["report_every_s"] == 300 and "num_videos" not in spec.settings


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("lvl", "x", "f.yaml: mine.lvl: found the key lvl; expected a known key. Did you mean le"),
        ("level", None, "mine.level: found nothing; expected the level"),
        ("level", "CartPole-v7", "mine.level: there is no level 'CartPole-v7': its newest version"),
        ("levels", ["Catch-v0"], "expected either level or levels"),
        ("algorithm", "pppo", 'mine.algorithm: found "pppo"; expected an algorithm. Did you mean'),
        ("preset", "cartpol", 'mine.preset: found "cartpol"; expected a preset. Did you mean cart'),
        ("by_level", [1], "mine.by_level: found [1]; expected keys with values"),
        ("by_level.Catch-v0", 1, "mine.by_level.Catch-v0: found 1; expected keys with values"),
        ("by_level.Catch-v9", {}, "mine.by_level.Catch-v9.level: there is no level 'Catch-v9'"),
        ("by_level.Catch-v0", {"gama": 1}, "by_level.Catch-v0.settings.gama: found 1; expected"),
        ("settings", [1], "mine.settings: found [1]; expected keys with values"),
        ("settings.lerning_rate", 1, "settings.lerning_rate: found 1; expected the name of a sett"),
        ("settings.learning_rate", "fast", 'settings.learning_rate: found "fast"; expected a numb'),
        ("settings.learning_rate", -1, "settings.learning_rate: found -1; expected more than 0"),
        ("settings.seed", 3, "settings.seed: found 3; expected nothing here: seeds count up from"),
        ("settings.logdir", "x", "each session has a folder of its own"),
        ("settings.agents", "left,right", 'settings.agents: found "left,right"; expected nothing'),
        ("settings.product", "inner", "nothing here: a session trains one agent; train several"),
        ("settings.bodies", "1", "nothing here: a session trains one agent; train several"),
        ("settings.watch", True, "nothing here: sessions run without a window"),
        ("settings.remotes", "h:5900+15900", "sessions side by side would play on the same desk"),
        ("settings.video", "x.gif", "mine: --video=x.gif is for --mode=test"),
        ("settings.report_every_s", 300, "report_every_s: found 300.0; expected less than 300, or"),
        ("meta.silent_timeout_s", 2, "meta.silent_timeout_s: found 2.0; expected more than 2; se"),
        ("agent", "VectorAgnt", "mine: --agent_name=VectorAgnt is not known. Did you mean Vector"),
        ("search.agent__choice", ["VectorAgent", "Vector"], "--agent_name=Vector is not known"),
        ("search.settings.level_name", ["CartPole-v1", "CartPole-v7"],
         "mine.search.settings.level_name__grid_search: there is no level 'CartPole-v7'"),
        ("meta.seed", 2**31 - 1, "meta.seed: found 2147483647; expected 2145483647 or less"),
        ("settings.agent_name", "x", "it once; f.yaml: mine.agent says it, too"),
        ("search.algorithm__choice", ["ppo", "simple"], "simple is a program of trainings"),
        ("settings.minibatches", 9999, "--minibatches=9999: a rollout has"),
        ("meta.sesions", 2, "meta.sesions: found the key sesions; expected a known key. Did you"),
        ("meta.sessions", 0, "meta.sessions: found 0; expected 1 or more"),
        ("meta.final_sessions", 1, "meta.final_sessions: found 1; expected 3 or more"),
        ("meta.search", "bayes", 'meta.search: found "bayes"; expected random or tpe'),
        ("meta.search", "grid", "expected another search: learning_rate__loguniform cannot be"),
        ("meta.resources.cpus", 2, "meta.resources.cpus: found the key cpus"),
        ("meta.resources", 4, "meta.resources: found 4; expected keys with values"),
        ("search.settings.learning_rate__unform", [1, 2], "a kind of search after __. Did you mea"),
        ("search.settings.lerning_rate__uniform", [1, 2], "a setting before __. Did you mean lear"),
        ("search.settings.gamma", 3, "search.settings.gamma: found 3; expected the name of a"),
        ("search.settings.batch_size", 8, 'batch_size: found 8; expected a list such as ["a", "b"'),
        ("search.settings.batch_size__choice", [8, "x"], 'batch_size__choice[1]: found "x"; expec'),
        ("search.settings.batch_size__choice", [8, 8], "expected each value once"),
        ("search.settings.entropy_cost__uniform", [2, 1], "the lower end first"),
        ("search.settings.entropy_cost__uniform", [1], "two numbers: [low, high]"),
        ("search.settings.entropy_cost__loguniform", [0, 1], "a number above 0"),
        ("search.settings.batch_size__randint", [1.5, 4], "expected whole numbers"),
        ("search.settings.gae_lambda__uniform", [0.5, 2], "gae_lambda__uniform[1]: found 2; expec"),
        ("search.settings.gae_lambda__normal", [0.99, 0.1], "(3 deviations from its mean): found"),
        ("search.settings.optimizer__uniform", [1, 2], "expected choice or grid_search: optimizer"),
        ("search.settings.learning_rate__choice", [0.1], "expected learning_rate once"),
        ("search.settings.seed", [1, 2], "nothing here: seeds count up"),
        ("search.lvl__choice", ["x"], "search.lvl__choice: found the key lvl__choice"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_nothing_is_started(path, value, words, tmp_path, capsys):
    file = tmp_path / "f.yaml"
    file.write_text(json.dumps({"mine": changed(path, value)}))
    data = tmp_path / "data"
    for command in ("check", "train", "search"):
        more = [] if command == "check" else [f"--data={data}"]
        assert main([command, str(file), *more]) == 2
        said = capsys.readouterr()
        assert said.err.count("\n") == 1 and said.err.startswith("lab: ")
        assert words in said.err.replace(str(tmp_path) + "/", "")
    assert not data.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found nothing; expected named specs"),
        ("[1, 2]", "expected settings"),
        ("level: CartPole-v1", "found level at the top; expected the spec's name there"),
        ("a: {level: CartPole-v1, level: Catch-v0}", "level is given twice"),
        ("a: {level: [", "f.yaml: line 1"),
        ("a: 3", "f.yaml: a: found 3; expected keys with values"),
        ("ALE/Pong: {level: CartPole-v1}", 'f.yaml: found "ALE/Pong"; expected a name of letters'),
    ],
)
def test_a_file_that_holds_no_spec_is_refused(text, words, tmp_path, capsys):
    (tmp_path / "f.yaml").write_text(text)
    assert main(["check", str(tmp_path / "f.yaml")]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


@pytest.mark.parametrize("text", ["def (", "nobody_knows_this", "raise KeyError('mine')"])
def test_an_algorithm_of_ones_own_that_is_broken_is_one_line(text, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_broken_algorithm.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "f.yaml"
    file.write_text("mine: {level: CartPole-v1, algorithm: 'my_broken_algorithm:Mine'}")
    assert main(["check", str(file)]) == 2
    said = capsys.readouterr().err
    assert "f.yaml: mine.algorithm: --algorithm=my_broken_algorithm:Mine: cannot import" in said
    assert said.count("\n") == 1


def test_one_of_several_specs_is_named(tmp_path):
    file = tmp_path / "two.json"
    file.write_text(json.dumps({"one": {"level": "Catch-v0"}, "two": {"level": "CartPole-v1"}}))
    assert specs.read(file, "two").levels == ["CartPole-v1"]
    with pytest.raises(UserError, match=r"has 2 specs; name one of them, such as .*two.json:one"):
        specs.read(file)
    with pytest.raises(UserError, match="there is no spec 'tow'. Did you mean two"):
        specs.read(file, "tow")
    with pytest.raises(UserError, match="cannot be read"):
        specs.read(tmp_path / "none.yaml")
    assert specs.split(f"{file}:two") == (str(file), "two")
    assert specs.split(str(file)) == (str(file), "")


def test_a_search_needs_something_to_search(tmp_path, capsys):
    file = tmp_path / "f.yaml"
    file.write_text("mine: {level: CartPole-v1}")
    assert main(["search", str(file), f"--data={tmp_path}"]) == 2
    assert "mine.search: found null; expected keys to search" in capsys.readouterr().err


def test_more_than_the_machine_has_is_refused(tmp_path, capsys):
    for part, words in (("cores: 1000", "meta.resources.cores: found 1000; expected at most"),
                        ("memory_gb: 1e6", "meta.resources.memory_gb")):  # fmt: skip
        file = tmp_path / "f.yaml"
        file.write_text(f"mine: {{level: CartPole-v1, meta: {{resources: {{{part}}}}}}}")
        assert main(["train", str(file), f"--data={tmp_path / 'data'}"]) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_fewer_cores_than_none_are_refused(tmp_path, capsys):
    file = tmp_path / "f.yaml"
    file.write_text("mine: {level: CartPole-v1}")
    assert main(["train", str(file), "--cores=-1", f"--data={tmp_path / 'data'}"]) == 2
    assert "--cores=-1: expected 0, which are all, or more" in capsys.readouterr().err


def test_every_example_is_right(capsys):
    examples = PROJECT / "lab" / "examples"
    listed = json.loads((examples / "experiments.json").read_text())
    for name, modes in listed.items():
        assert all(specs.read(examples / name, one) for one in modes)
    studies = [file for file in PROJECT.glob("sandbox/*.yaml") if file.stem != "racer"]  # a game
    for file in [*examples.glob("*.yaml"), *examples.glob("slm*"), *studies]:
        assert main(["check", str(file)]) == 0, capsys.readouterr().err


def test_specs_of_a_benchmark_have_the_same_meta(tmp_path, capsys):
    file, data = tmp_path / "f.yaml", tmp_path / "data"
    for other, words in (
        ("retries: 2", "f.yaml: b.meta.retries: found 2; expected 0, as a has: a benchmark runs"),
        ("resources: {cores: 2}", "f.yaml: b.meta.resources.cores: found 2; expected 1, as a has"),
        ("standard: {solved_return: 1}", "b.meta.standard.solved_return: found 1.0; expected null"),
    ):
        file.write_text(
            "a: {level: CartPole-v1, meta: {sessions: 2, seed: 5, trials: 3}}\n"
            f"b: {{level: CartPole-v1, meta: {{{other}}}}}\n"
        )
        assert main(["benchmark", str(file), "--levels=CartPole-v1", f"--data={data}"]) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1
    assert not data.exists()


def test_a_standard_is_that_of_one_level(tmp_path, capsys):
    file, data = tmp_path / "f.yaml", tmp_path / "data"
    file.write_text("mine: {level: CartPole-v1, meta: {standard: {solved_return: 500}}}")
    assert main(["benchmark", str(file), "--levels=classic", f"--data={data}"]) == 2
    said = capsys.readouterr().err
    assert 'mine.meta.standard: found {"solved_return": 500.0, "solved_frames": null}; exp' in said
    assert said.count("\n") == 1 and not data.exists()
    assert starting.prepare("benchmark", str(file), "CartPole-v1")[1]["levels"] == ["CartPole-v1"]


def test_a_development_run_learns_from_a_short_replay(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("mine: {preset: dqn_atari, level: ALE/Pong-v5}")
    spec, _ = starting.prepare("dev", str(file), "")
    assert spec.settings["replay_warm_up"] == starting.DEV_WARM_UP
    assert "replay_warm_up" not in starting.prepare("dev", FIRST, "")[0].settings


def test_settings_of_levels_that_are_not_played_are_not_passed_over_silently(tmp_path, capsys):
    file, data = tmp_path / "f.yaml", tmp_path / "data"
    file.write_text("mine: {level: Catch-v0, by_level: {ALE/Pong-v5: {batch_size: 8}}}")
    assert main(["benchmark", str(file), "--levels=Catch-v0,pong", f"--data={data}"]) == 2
    said = capsys.readouterr().err
    assert 'mine.by_level.ALE/Pong-v5: found {"batch_size": 8}; expected one of the lev' in said
    assert said.endswith("Did you mean pong?\n")
    assert main(["benchmark", str(file), "--levels=Catch-v0,Catch-v0", f"--data={data}"]) == 2
    assert "Catch-v0 is given twice; expected each level once." in capsys.readouterr().err
    assert not data.exists()
    assert starting.prepare("benchmark", str(file), "Catch-v0,ALE/Pong-v5")[1]["levels"]
    spec, _ = starting.prepare("train", str(file), "")
    assert spec.notes == ("mine.by_level is for benchmarks; train leaves it out.",)
