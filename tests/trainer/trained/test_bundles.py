"""Trained agents as small files: made, handed on by file, address or name, and used again."""

import dataclasses
import functools
import hashlib
import http.server
import json
import os
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import experiment
from tests.trainer.disks import files_limited_to
from tests.trainer.untrained import make_run
from trainer import build
from trainer.machine import launching
from trainer.programs import resuming
from trainer.settings import config
from trainer.settings.config import Settings
from trainer.storage import bundles, fetching
from trainer.storage.checkpoints import Checkpoint, read
from trainer.trained import bundling
from trainer.trained import trained_agent as trained
from trainer.trained.evaluation import evaluate
from trainer.trained.export import export
from user_error import UserError


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run, in a folder of its own to work in and with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_run(tmp_path / "run", "CartPole-v1")
    (tmp_path / "run" / "settings.json").write_text("{}")
    return tmp_path / "run"


@pytest.fixture
def bundle(run: Path) -> Path:
    export(Settings(mode="export", logdir=str(run), export_format="bundle"))
    return run / "bundle" / "CartPole-v1.npz"


@pytest.fixture
def served(bundle: Path) -> Iterator[str]:
    """The address of the folder with the bundle."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(bundle.parent))
    handler.log_message = lambda *arguments: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def greedy(**changes: Any) -> list[float]:
    """Returns of greedy games."""
    chosen = {"test_policy": "greedy", "test_num_episodes": 4}
    report = evaluate(Settings(mode="test", **chosen | changes))
    return report["levels"]["CartPole-v1"]["returns"]


def refused(checkpoint: str, **changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        trained.find(Settings(mode="test", checkpoint=checkpoint, **changes))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_bundle_plays_as_its_run_does_and_says_where_it_comes_from(run, bundle, capsys):
    greedy(logdir=str(run))
    export(Settings(mode="export", logdir=str(run), export_format="bundle"))
    printed = capsys.readouterr().out
    assert str(bundle) in printed
    assert sha256(bundle) in printed
    [original] = (run / "checkpoints").glob("*.npz")
    whole, small = read(original), read(bundle)
    for name, array in whole.weights.items():
        np.testing.assert_allclose(small.weights[name], array, rtol=1e-3, atol=1e-4)
        assert small.weights[name].dtype == array.dtype
    assert small.optimizer == {} and set(small.algorithm) == set(whole.algorithm)
    assert "logdir" not in small.settings and str(run) not in str(small.settings)
    card = bundles.card(small)
    assert card is not None
    assert (card["levels"], card["environment_frames"]) == (["CartPole-v1"], 1000)
    assert card["evaluation"]["levels"]["CartPole-v1"]["episodes"] == 4
    assert {"commit", "versions", "machine"} == set(card["bundled_with"])
    # By itself it knows its level.
    returns = greedy(checkpoint=str(bundle))
    assert len(returns) == 4
    report = json.loads(Path("logs/trained/CartPole-v1/evaluation.json").read_text())
    assert report["levels"]["CartPole-v1"]["returns"] == returns
    assert bundle.stat().st_size < original.stat().st_size


def test_its_results_are_in_a_folder_of_its_own_and_not_in_that_of_a_training(
    bundle, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    of_training = tmp_path / "logs" / "CartPole-v1"
    of_training.mkdir(parents=True)
    mine = bundle.rename(tmp_path / "mine.npz")
    evaluate(Settings(mode="test", checkpoint=str(mine), test_num_episodes=1, num_videos=1))
    assert not [*of_training.iterdir()]
    folder = tmp_path / "logs" / "trained" / "mine"
    [video] = (folder / "videos").iterdir()
    assert (folder / "evaluation.json").exists() and video.stat().st_size > 1000


@pytest.mark.parametrize(
    "which",
    [
        "zoo:pole-0.5",
        "here/pole-0.5.npz",
        f"https://example.org/agents/pole-0.5.npz#sha256={64 * 'a'}",
        f"https://example.org/agents/pole-0.5.npz?key=a/b.c&signature=d#sha256={64 * 'a'}",
    ],
)
def test_its_folder_has_its_name(which):
    assert trained.folder_of(which) == Path("logs/trained/pole-0.5")


def test_it_is_fetched_once_and_only_with_its_checksum(bundle, served, tmp_path):
    address = f"{served}/{bundle.name}"
    left = tmp_path / "cache/impala/bundles/.k5t_x8a1"  # by a process that was killed
    left.parent.mkdir(parents=True)
    left.write_text("half")
    os.utime(left, (0, 0))
    assert len(greedy(checkpoint=f"{address}#sha256={sha256(bundle)}")) == 4
    cached = list((tmp_path / "cache/impala/bundles").iterdir())
    assert [path.name for path in cached] == [f"{sha256(bundle)}.npz"]
    gone = f"http://127.0.0.1:9/{bundle.name}#sha256={sha256(bundle)}"
    assert len(greedy(checkpoint=gone)) == 4  # from the cache

    assert "expected the checksum behind the address" in refused(address)
    other = "0" * 64
    assert f"expected {other}" in refused(f"{address}#sha256={other}")
    assert "could not be fetched (" in refused(f"{served}/nothing.npz#sha256={other}")
    assert "refused" in refused(f"http://127.0.0.1:9/x.npz#sha256={other}")
    assert [path.name for path in (tmp_path / "cache/impala/bundles").iterdir()] == [
        f"{sha256(bundle)}.npz"
    ]


def test_its_address_may_be_long_as_those_with_signatures_are(bundle, served):
    address = f"{served}/{bundle.name}?signature={5000 * 's'}#sha256={sha256(bundle)}"
    assert len(greedy(checkpoint=address)) == 4
    assert Path("logs/trained/CartPole-v1/evaluation.json").exists()


@pytest.mark.parametrize("name", ["2048", "1.50", "yes", "null", "2026-11-26"])
def test_a_name_is_text_whatever_yaml_takes_it_for(bundle, name, capsys):
    registry = bundle.parent / "names.yaml"
    registry.write_text(f"{name}: {{source: {bundle.name}, sha256: {sha256(bundle)}}}\n")
    assert fetching.located(f"zoo:{name}", "--checkpoint", str(registry)) == bundle
    assert fetching.listing(str(registry)).strip() == f"zoo:{name}"
    assert f"Did you mean {name}?" in refused(f"zoo:{name}s", registry=str(registry))


def test_it_plays_beside_a_run_of_several_agents_in_the_usual_folder(bundle):
    folder = Path(Settings().run_folder)
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"agents": "left,right"}')
    assert len(greedy(checkpoint=str(bundle))) == 4


@pytest.mark.parametrize("hosted", [False, True])
def test_names_are_those_of_a_registry(bundle, served, hosted, capsys):
    registry = bundle.parent / "names.yaml"
    registry.write_text(
        f"pole: {{source: {bundle.name}, sha256: {sha256(bundle)}, description: balances}}\n"
        f"bent: {{source: {bundle.name}, sha256: {'f' * 64}}}\n"
        "bare: {source: x.npz}\n"
    )
    where = f"{served}/names.yaml" if hosted else str(registry)
    assert len(greedy(checkpoint="zoo:pole", registry=where)) == 4
    evaluate(Settings(mode="test", checkpoint="zoo:", registry=where))
    assert "zoo:pole  balances" in capsys.readouterr().out
    assert "expected fff" in refused("zoo:bent", registry=where)
    assert "needs source and sha256" in refused("zoo:bare", registry=where)
    assert "has no 'poles'" in refused("zoo:poles", registry=where)
    assert "cannot be read" in refused("zoo:pole", registry=where + "x")
    registry.write_text("- a list\n")
    assert "is not a mapping" in refused("zoo:pole", registry=where)


def test_a_training_starts_from_it(bundle, tmp_path):
    quick = ["--level_name=CartPole-v1", "--total_environment_frames=400", "--num_actors=1"]
    start = f"--initial_weights={bundle}"
    assert experiment.main([*quick, start, f"--logdir={tmp_path / 'next'}"]) == 0
    assert f"Starting with the agent of {bundle}." in (tmp_path / "next" / "train.log").read_text()


def test_files_of_others_name_no_code(run):
    make_run(run.parent / "own", "tests.trainer.untrained:Uneven")
    [theirs] = (run.parent / "own" / "checkpoints").glob("*.npz")
    moved = theirs.rename(run.parent / "downloaded.npz")
    message = refused(str(moved))
    assert "--level_name=tests.trainer.untrained:Uneven" in message
    found = trained.find(
        Settings(mode="test", checkpoint=str(moved), level_name="tests.trainer.untrained:Uneven"),
        {"level_name"},
    )
    assert found.levels == ["tests.trainer.untrained:Uneven"]


@pytest.mark.parametrize("given", [{}, {"algorithm": "ppo"}])
def test_the_algorithm_of_a_file_of_others_is_not_looked_up(given, run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "their_code.py").write_text("raise RuntimeError('this was run')\n")
    theirs = changed(run, algorithm="their_code:Settings")
    message = refused(str(theirs), **given)
    assert "asks for code by its name, which a file must not: --algorithm=their_code:" in message
    assert "their_code" not in sys.modules


def test_the_level_of_a_file_of_others_is_not_looked_up_for_its_kinds_of_bodies(run):
    theirs = changed(run, level_name="their_code:Level", body_kinds=[])
    assert "--level_name=their_code:Level" in refused(str(theirs), level_name="CartPole-v1")


def changed(run: Path, **settings: Any) -> Path:
    """A file with the run's checkpoint, which says that it was trained with other settings."""
    [original] = (run / "checkpoints").glob("*.npz")
    whole = read(original)
    path = run.parent / "downloaded.npz"
    bundles.write(dataclasses.replace(whole, settings=whole.settings | settings), path)
    return path


def test_a_damaged_bundle_and_one_of_another_game_are_one_line(bundle):
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged = bundle.with_name("damaged.npz")
    damaged.write_bytes(content)
    assert "is damaged" in refused(str(damaged))
    settings = Settings(mode="test", checkpoint=str(bundle), level_name="Acrobot-v1")
    with pytest.raises(UserError, match="does not fit the weights"):
        evaluate(settings, {"level_name"})


def test_a_bundle_of_many_levels_has_a_name_that_a_file_can_have(tmp_path):
    games = [f"Game{number}NoFrameskip-v4" for number in range(57)]
    assert bundling.name_of(games[:2]) == "Game0NoFrameskip-v4_Game1NoFrameskip-v4"
    assert bundling.name_of(games) == "Game0NoFrameskip-v4_and_56_more"
    for levels in (["ü" * 300], ["ü" * 300, "b"]):
        path = tmp_path / f"{bundling.name_of(levels)}.npz"
        bundling.written(Checkpoint({}, {}, {}, {}, {}), path)
        assert path.exists()


def test_a_full_disk_leaves_the_old_bundle(run, bundle):
    before = bundle.read_bytes()
    with files_limited_to(1000), pytest.raises(UserError, match="cannot be written"):
        bundling.export(trained.find(Settings(mode="export", logdir=str(run))))
    assert bundle.read_bytes() == before
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]


def test_weights_beyond_16_bits_keep_all_of_them():
    large, small = np.array([1e5], np.float32), np.array([0.1], np.float32)
    assert bundles._halved(large).dtype == np.float32
    assert bundles._halved(small).dtype == np.float16
    assert fetching.located("best", "--checkpoint") is None


def test_a_number_that_never_changes_is_seen_alike_in_a_bundle(tmp_path):
    make_run(tmp_path / "run", "Pendulum-v1", algorithm="ppo")
    [original] = (tmp_path / "run" / "checkpoints").glob("*.npz")
    whole = read(original)
    for name, array in whole.weights.items():
        if "normaliser" in name:
            array[...] = {"mean": 9.81, "variance": 0.0, "seen": 5e4}[name.rpartition("/")[2]]
    bundles.write(whole, original)
    export(Settings(mode="export", logdir=str(tmp_path / "run"), export_format="bundle"))
    bundle = tmp_path / "run" / "bundle" / "Pendulum-v1.npz"
    wanted, got = (policy_at(str(path), 9.81) for path in (original, bundle))
    np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=1e-2)


def policy_at(checkpoint: str, number: float) -> np.ndarray:
    """What a trained agent gives for an observation of which each number is this one."""
    found = trained.find(Settings(mode="test", checkpoint=checkpoint))
    spec = found.spec()
    agent = found.agent(spec)
    zeros = np.zeros([1, 1], np.float32)
    seen, action = spec.observation_space.shape or (), spec.action_space.shape or ()
    output, _ = agent(
        np.full([1, 1, *seen], number, np.float32),
        *(zeros, np.zeros([1, 1, *action], np.float32), zeros > 0),
        agent.initial_state(1),
    )
    return np.asarray(output.policy)


def test_a_card_has_the_evaluation_of_its_own_checkpoint_only(run):
    greedy(logdir=str(run))
    found = trained.find(Settings(mode="export", logdir=str(run)))
    evaluation = bundling.card(found)["evaluation"]
    assert evaluation["opponent"] == "" and evaluation["policy"] == "greedy"
    written = run / "evaluation.json"
    report = json.loads(written.read_text())
    written.write_text(json.dumps(report | {"environment_frames": 999}))
    assert bundling.card(found)["evaluation"] is None


def test_the_mean_return_on_a_card_is_that_of_the_levels_and_a_bundle_of_it_keeps_the_card(run):
    [original] = (run / "checkpoints").glob("*.npz")
    whole = read(original)
    whole.counters |= {"recent_returns": [[1.0] * 3, [5.0], []], "trained_with": {"commit": "abc"}}
    bundles.write(whole, original)
    greedy(logdir=str(run))
    export(Settings(mode="export", logdir=str(run), export_format="bundle"))
    first = run / "bundle" / "CartPole-v1.npz"
    card = bundles.card(read(first))
    assert card is not None and card["mean_return_in_training"] == 3.0
    assert card["evaluation"]["policy"] == "greedy" and card["trained_with"] == {"commit": "abc"}
    chosen = Settings(mode="export", export_format="bundle", export_dir=str(run / "again"))
    export(chosen.replace(checkpoint=str(first)))
    again = bundles.card(read(run / "again" / first.name))
    assert again == card
    report = greedy(checkpoint=str(first), test_num_episodes=2)
    export(chosen.replace(checkpoint=str(first)))
    again = bundles.card(read(run / "again" / first.name))
    assert again is not None and len(report) == 2
    assert again.pop("evaluation")["levels"]["CartPole-v1"]["episodes"] == 2
    assert again == {name: value for name, value in card.items() if name != "evaluation"}


def commands(capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """The flags of the commands that an export has printed."""
    lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    found = {" ".join(words[: words.index("bin/train")]): words for words in lines
             if "bin/train" in words}  # fmt: skip
    return {name: words[words.index("bin/train") + 1 :] for name, words in found.items()}


def test_the_commands_of_an_export_use_an_agent_that_is_not_the_default(run, capsys):
    folder = run.parent / "a run"
    make_run(folder, "CartPole-v1", hidden_sizes="8,8", frame_stack=2)
    export(Settings(mode="export", logdir=str(folder), export_format="bundle"))
    printed = commands(capsys)
    assert printed["play"] == ["--mode=test", f"--checkpoint={folder}/bundle/CartPole-v1.npz"]
    assert experiment.main([*printed["play"], "--test_num_episodes=1"]) == 0
    quick = ["--total_environment_frames=400", "--num_actors=1"]
    assert experiment.main([*printed["train on"], *quick]) == 0
    flat = json.loads((run.parent / "a run-on" / "settings.json").read_text())
    assert (flat["hidden_sizes"], flat["frame_stack"]) == ("8,8", 2)


def test_an_installed_user_is_shown_commands_that_there_are(run, capsys, monkeypatch):
    monkeypatch.setattr(launching, "is_checkout", lambda: False)
    export(Settings(mode="export", logdir=str(run), export_format="bundle"))
    told = capsys.readouterr().out
    assert told.count(" impala-train --") == 2 and "bin/train" not in told


def test_a_training_from_an_agent_without_a_backdrop_has_none_either(run, capsys):
    level, folder = "PongNoFrameskip-v4", run.parent / "plain"
    small = {"width": 44, "height": 44}
    trained_by = make_run(folder, level, backdrop=False, **small)
    export(Settings(mode="export", logdir=str(folder), export_format="bundle"))
    assert "--backdrop=false" in commands(capsys)["train on"]
    bundle = folder / "bundle" / f"{level}.npz"
    checkpoint, spec = read(bundle), build.level_spec(trained_by)
    assert checkpoint.settings["backdrop"] is False
    resuming.check_units(checkpoint, trained_by, spec, bundle)
    with pytest.raises(UserError, match="--backdrop=True does not fit"):
        resuming.check_units(checkpoint, Settings(level_name=level, **small), spec, bundle)


def test_the_commands_of_an_export_name_the_algorithm_and_code_that_a_file_must_not(run, capsys):
    level = "tests.trainer.untrained:Uneven"
    trained_by = make_run(run.parent / "own", level, algorithm="ppo", clip_ratio=0.3)
    export(Settings(mode="export", logdir=str(run.parent / "own"), export_format="bundle"))
    printed = commands(capsys)
    play, train_on = printed["play"], printed["train on"]
    assert f"--level_name={level}" in play
    assert trained.find(config.parse(play), config.given(play)).levels == [level]
    assert "--algorithm=ppo" in train_on
    assert config.parse(train_on).algorithm == trained_by.algorithm


def test_an_address_that_none_can_be_is_one_line(run):
    assert "could not be fetched (" in refused(f"http://127.0.0.1:9/a b.npz#sha256={'0' * 64}")
    assert "cannot be read (" in refused("zoo:pole", registry="http://127.0.0.1:9/a b.yaml")


def test_what_a_registry_names_and_nobody_can_look_at_is_one_line(run):
    Path("far.yaml").write_text(f"far: {{source: {'x' * 300}, sha256: {'f' * 64}}}\n")
    told = refused("zoo:far", registry="far.yaml")
    assert told.startswith("--checkpoint=zoo:far: xxx") and "(File name too long)" in told
