"""The exported agent, used by a program that has TensorFlow but none of this code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from agents.distributions import DiagonalGaussian
from environments import EnvironmentSpec
from tests.trainer.disks import files_limited_to
from tests.trainer.launching import contents
from tests.trainer.untrained import make_run
from trainer import build
from trainer.settings.config import Settings
from trainer.trained import trained_agent as trained
from trainer.trained.export import export
from trainer.trained.export_notes import README, about, preprocessing
from user_error import UserError

STEPS, BATCH = 4, 3

FOREIGN_PROGRAM = """
import sys
import numpy as np
import tensorflow as tf

for folder in sys.argv[1:]:
    model = tf.saved_model.load(folder)
    act = model.signatures["act"]
    rows = np.load(folder + "/rows.npz")
    state = {}
    if "initial_state" in model.signatures:
        batch_size = tf.constant(len(rows["reward"][0]))
        state = dict(model.signatures["initial_state"](batch_size=batch_size))
    answers = []
    for t in range(len(rows["reward"])):
        answer = act(**{name: tf.constant(rows[name][t]) for name in rows.files}, **state)
        state = {name: answer[name] for name in state}
        answers.append({name: tensor.numpy() for name, tensor in answer.items()})
    joined = {name: np.stack([answer[name] for answer in answers]) for name in answers[0]}
    np.savez(folder + "/answers.npz", **joined)
ours = {"sonnet", "gymnasium", "ale_py", "trainer", "algorithms", "agents", "environments"}
assert not ours & set(sys.modules), ours & set(sys.modules)
"""

AGENTS = {
    "PongNoFrameskip-v4": "ResNetLSTMAgent",
    "CartPole-v1": "VectorAgent",
    "tests.trainer.untrained:Continuous": "VectorLSTMAgent",
    "tests.trainer.untrained:Several": "VectorAgent",
}


def exported(run: Path, **changes: Any) -> Path:
    """Exports a run; returns the folder."""
    settings = Settings(mode="export", logdir=str(run), **changes)
    export(settings)
    return Path(settings.trained.export_dir or run / "export")


def rows_like(spec: Any) -> dict[str, np.ndarray]:
    """Some steps of a batch of environments, one of which starts an episode in between."""
    random = np.random.default_rng(0)
    seen, acts = spec.observation_space, spec.action_space
    seen.seed(0)
    acts.seed(0)
    observation = np.array([[seen.sample() for _ in range(BATCH)] for _ in range(STEPS)])
    if seen.dtype != np.uint8:
        observation = random.normal(size=observation.shape)
    action = np.array([[acts.sample() for _ in range(BATCH)] for _ in range(STEPS)])
    first = np.zeros([STEPS, BATCH], bool)
    first[0] = first[2, 1] = True
    return {
        "observation": observation.astype(seen.dtype),
        "reward": random.normal(size=[STEPS, BATCH]).astype(np.float32),
        "last_action": action.astype(np.float32 if acts.dtype.kind == "f" else np.int32),
        "first": first,
        "seed": np.stack([np.full(STEPS, 7), np.arange(STEPS)], axis=1).astype(np.int32),
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run for each of AGENTS, whose export was moved away and used by another program."""
    here = tmp_path_factory.mktemp("runs")
    for index, (level, agent) in enumerate(AGENTS.items()):
        run = here / agent_folder(level)
        make_run(run, level, agent_name=agent, width=44, height=40, popart=False)
        folder = exported(run).rename(here / f"moved-{index}")
        spec = build.level_spec(trained.find(Settings(logdir=str(run))).settings)
        np.savez(folder / "rows.npz", **cast(dict[str, Any], rows_like(spec)))
    moved = [here / f"moved-{index}" for index in range(len(AGENTS))]
    subprocess.run(
        [sys.executable, "-I", "-c", FOREIGN_PROGRAM, *moved],
        cwd=here,
        env={"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2", "PATH": os.environ["PATH"]},
        check=True,
    )
    return here


def agent_folder(level: str) -> str:
    return level.split(":")[-1]


@pytest.mark.xdist_group("exports")
@pytest.mark.parametrize("level", AGENTS)
def test_a_foreign_program_gets_the_agent_s_own_answers(runs, level):
    found = trained.find(Settings(logdir=str(runs / agent_folder(level))))
    spec = build.level_spec(found.settings)
    rows = rows_like(spec)
    got = np.load(runs / f"moved-{list(AGENTS).index(level)}" / "answers.npz")
    ours = found.agent(spec, "float32")
    output, _ = ours(
        *(tf.constant(rows[name]) for name in ("observation", "reward", "last_action", "first")),
        ours.initial_state(BATCH),
    )
    np.testing.assert_allclose(got["policy"], output.policy, atol=1e-4)
    np.testing.assert_allclose(got["baseline"], output.baseline, atol=1e-4)
    # Actions from the same logits: differences in rounding are not tested here.
    same = ours.distribution.mode(tf.constant(got["policy"]))
    np.testing.assert_allclose(got["greedy_action"], same, atol=1e-5)
    for t in range(STEPS):
        sampled = ours.distribution.sample(tf.constant(got["policy"][t]), rows["seed"][t])
        np.testing.assert_allclose(got["action"][t], sampled, atol=1e-5)
    log_prob = ours.distribution.log_prob(tf.constant(got["policy"]), got["action"])
    np.testing.assert_allclose(got["log_prob"], log_prob, atol=1e-4)


def test_an_export_describes_itself(tmp_path):
    make_run(tmp_path, "BreakoutNoFrameskip-v4", agent_name="ResNetAgent", width=44, height=44)
    folder = exported(tmp_path)
    about = json.loads((folder / "about.json").read_text("utf-8"))
    assert about["agent"] == "ResNetAgent"
    assert about["levels"] == ["BreakoutNoFrameskip-v4"]
    assert about["action_meanings"] == ["NOOP", "FIRE", "RIGHT", "LEFT"]
    assert about["frame_stack"] == about["frames_per_step"] == 4
    assert about["inputs"]["observation"] == {"shape": [None, 44, 44, 1], "dtype": "uint8"}
    assert about["inputs"]["state_0"]["shape"] == [None, 3, 44, 44, 1]
    assert any("44 × 44" in step for step in about["preprocessing"])
    assert about["environment_frames"] == 1000
    readme = (folder / "README.md").read_text("utf-8")
    assert readme == README
    for name in about["inputs"]:
        assert name.startswith("state_") or f"{name}=" in readme


def test_the_parameters_of_continuous_actions_are_what_the_notes_say():
    box = gymnasium.spaces.Box(np.array([-2, 0], np.float32), np.array([2, 8], np.float32))
    made = DiagonalGaussian(box)
    low, high = map(float, re.findall(r"clipped to (-?\d+)…(-?\d+)", README)[0])
    policy = tf.constant([0.5, -1.0, -99.0, 99.0])  # means, then logarithms of deviations
    np.testing.assert_allclose(made.mode(policy), [0 + 2 * 0.5, 4 + 4 * -1.0])
    drawn = np.stack([made.sample(policy, tf.constant([0, seed])) for seed in range(2000)])
    deviations = [2 * np.exp(low), 4 * np.exp(high)]
    np.testing.assert_allclose(drawn.std(axis=0), deviations, rtol=0.1)


def test_notes_are_by_level_where_levels_differ(tmp_path):
    pong, qbert = "PongNoFrameskip-v4", "ALE/Qbert-v5"  # six actions each, but not the same
    make_run(tmp_path / "two", f"{pong},{qbert}", agent_name="SimpleConvNetAgent")
    make_run(tmp_path / "same", "CartPole-v1,CartPole-v0")
    notes = []
    for name in ("two", "same"):
        found = trained.find(Settings(mode="export", logdir=str(tmp_path / name)))
        notes.append(about(found, found.spec(), {}, {}))
    two, same = notes
    assert two["action_meanings"][pong][2:] == ("RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
    assert two["action_meanings"][qbert][2:] == ("UP", "RIGHT", "LEFT", "DOWN")
    seen = two["preprocessing"].items()
    sticky = {name: "a chance of 0.25" in "".join(steps) for name, steps in seen}
    assert sticky == {pong: False, qbert: True}
    assert same["action_meanings"] is None and isinstance(same["preprocessing"], list)


def told(level: str, **changes: Any) -> str:
    """What notes say of the steps between a level and its agent."""
    settings = Settings(level_name=level, **changes)
    return "\n".join(preprocessing(settings.level, build.level_spec(settings)))


def test_notes_on_atari_name_sticky_actions_and_only_limits_that_there_are():
    usual = told("PongNoFrameskip-v4")
    assert "an episode ends after 108000 frames; in training after 1000 steps" in usual
    assert "repeats the last action" not in usual
    assert "a chance of 0.25, a frame repeats the last action" in told("ALE/Pong-v5")
    assert "a chance of 0.1, a frame repeats" in told("ALE/Pong-v5", sticky_actions=0.1)
    none = told("ALE/Pong-v5", max_episode_frames=0, max_rewardless_steps=0, sticky_actions=0)
    assert "an episode ends" not in none and "repeats the last action" not in none
    assert "lasts 4 frames; the observation is the maximum over the last two" in usual
    single = told("PongNoFrameskip-v4", frame_skip=1)
    assert "each action lasts 1 frame\n" in single and "maximum" not in single


def test_notes_on_other_levels_name_all_that_changes_what_is_seen():
    pictures = told("tests.trainer.levels:Pictures", crop="2,0,30,40", frame_stack=3)
    cropped, resized = "cropped to 2,0,30,40 (top, left", "resized to 84 × 84"
    assert pictures.index(cropped) < pictures.index(resized)
    assert "3 observations are stacked by the agent itself" in pictures
    masked = told("tests.environments.test_masks:Turns", action_masks=True)
    assert "a 1 for each allowed action and a 0 for each other one follow the vector" in masked
    assert "pictures are grey" in told("vnc:Catch-v0", fps=20)
    assert "pictures are RGB" in told("vnc:Catch-v0", fps=20, colour=True)
    canvas, shift = (f"pettingzoo:tests.environments.bodies.{one}" for one in ("canvas", "game"))
    assert "a last channel tells the body: " in told(canvas, tell_bodies="mark")
    assert "pictures of every second body are mirrored" in told(canvas, tell_bodies="mirror")
    assert "body" not in told(canvas)
    assert "a 1 among zeros, one for each body, follows" in told(shift, tell_bodies="mark")


def test_notes_on_atari_for_several_players_are_those_of_its_preprocessing():
    name = "pettingzoo:atari.pong_v3"
    seen = gymnasium.spaces.Box(0, 255, (84, 84, 2), np.uint8)
    bodies = ("first_0", "second_0")
    spec = EnvironmentSpec(name, seen, gymnasium.spaces.Discrete(6), 4, 4, True, bodies=bodies)

    def of_pong(**changes: Any) -> list[str]:
        return preprocessing(Settings(level_name=name, **changes).level, spec)

    assert of_pong(crop="0,0,210,100", sticky_actions=0.25) == [
        "0 to 30 frames without action after a reset",
        "each action lasts 4 frames; the observation is the maximum over the last two",
        "with a chance of 0.25, a frame repeats the last action instead",
        "pictures are grey",
        "pictures are cropped to 0,0,210,100 (top, left, height, width)",
        "pictures are resized to 84 × 84 (area interpolation)",
        "a last channel tells the body: everywhere 0 for the first, 255 for the last, evenly "
        "between",
        "4 observations are stacked by the agent itself; give it only the newest",
        "actions are flat and count from 0; continuous ones are clipped to their bounds",
        "an episode ends after 108000 frames",
    ]
    assert "repeats" not in " ".join(of_pong()) and "pictures are RGB" in of_pong(colour=True)


def test_popart_s_baselines_are_exported_as_one_value_per_level(tmp_path):
    make_run(tmp_path, "CartPole-v1,CartPole-v0", popart=True)
    found = trained.find(Settings(logdir=str(tmp_path)))
    spec = build.level_spec(found.settings)
    model = tf.saved_model.load(str(exported(tmp_path)))
    row = {name: tf.constant(rows[0]) for name, rows in rows_like(spec).items()}
    got = model.signatures["act"](**row)["baseline"]
    names = ("observation", "reward", "last_action", "first")
    agent = found.agent(spec, "float32")
    output, _ = agent(*(row[name][None] for name in names), agent.initial_state(BATCH))
    assert got.shape == (BATCH, 2)
    # Means are 2 and mean squares 13, so spreads are 3.
    np.testing.assert_allclose(got, 2 + 3 * output.baseline[0], atol=1e-4)


def test_an_older_export_is_replaced_and_nothing_else_is(tmp_path):
    make_run(tmp_path / "run", "CartPole-v1")
    folder = exported(tmp_path / "run", export_dir=str(tmp_path / "new" / "agent"))
    make_run(tmp_path / "run", "CartPole-v1", frames=2000)
    exported(tmp_path / "run", export_dir=str(folder))
    assert json.loads((folder / "about.json").read_text("utf-8"))["environment_frames"] == 2000
    assert list(folder.parent.iterdir()) == [folder]

    (folder / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="also holds notes.txt"):
        exported(tmp_path / "run", export_dir=str(folder))
    assert (folder / "notes.txt").read_text() == "mine"

    for taken in (tmp_path / "run", tmp_path / "run" / "checkpoints"):
        with pytest.raises(UserError, match="is not an export"):
            exported(tmp_path / "run", export_dir=str(taken))
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="--export_dir"):
            exported(tmp_path / "run", export_dir=str(place))


def test_without_a_checkpoint_there_is_nothing_to_export(tmp_path):
    with pytest.raises(UserError, match="no checkpoint"):
        exported(tmp_path)


def test_of_several_agents_one_has_to_be_named(tmp_path):
    folders = [tmp_path / "agents" / name for name in ("left", "right")]
    for folder in folders:
        make_run(folder, "CartPole-v1")
    with pytest.raises(UserError) as error:
        exported(tmp_path)
    told = f"{tmp_path} is the folder of several agents; expected that of one: "
    assert str(error.value) == told + f"{folders[0]} or {folders[1]}."
    assert exported(folders[0]).is_dir()


def test_a_full_disk_is_reported_in_one_line_and_an_older_export_is_kept(tmp_path):
    make_run(tmp_path / "run", "CartPole-v1")
    folder = exported(tmp_path / "run", export_dir=str(tmp_path / "agent"))
    before = contents(folder)
    with (
        files_limited_to(3000),
        pytest.raises(UserError, match=f"--export_dir={folder} could not be written") as error,
    ):
        exported(tmp_path / "run", export_dir=str(folder))
    assert "\n" not in str(error.value)
    assert contents(folder) == before
    assert {path.name for path in tmp_path.iterdir()} == {"run", "agent"}
