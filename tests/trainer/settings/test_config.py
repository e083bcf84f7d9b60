"""Settings come from flags; what is wrong with a flag is told in one line."""

import dataclasses
import shlex
import subprocess
import sys
from typing import Any

import pytest

from algorithms.settings import AlgorithmSettings
from cluster import options
from flags import setting
from trainer.settings import addresses, config, sizes
from trainer.settings.config import Settings
from user_error import UserError
from world_models.training.policy_settings import policy_settings


def refusal(*flags: str) -> str:
    with pytest.raises(UserError) as error:
        config.parse(flags)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_no_flags_give_the_defaults():
    assert config.parse([]) == Settings()


def test_every_setting_is_a_flag_and_survives_the_way_to_flags_and_back():
    changed = config.parse(
        [
            "--mode=test", "--seed=7", "--level_name=A-v0,B-v0", "--sticky_actions=0.25",
            "--noepisodic_life", "--batch_size=16", "--learning_rate=1e-3", "--popart=false",
            "--reward_clipping=none", "--gradients_clipping=-1", "--video=a b.gif",
        ]
    )  # fmt: skip
    assert config.parse(config.to_flags(changed)) == changed
    assert config.parse(shlex.split(config.to_command(changed))) == changed


def test_the_flags_of_the_typical_launch_are_known():
    launch = (
        "--level_name=BreakoutNoFrameskip-v4 --agent_name=SimpleConvNetAgent "
        "--num_action_repeats=1 --batch_size=32 --unroll_length=20 --entropy_cost=0.01 "
        "--learning_rate=0.0006 --total_environment_frames=200000000 --reward_clipping=abs_one "
        "--gradients_clipping=40.0"
    )
    settings = config.parse(shlex.split(launch))
    assert settings.learning.total_environment_frames == 200_000_000
    assert settings.learning.gradients_clipping == 40.0


def frames_of(text: str) -> int:
    flags = [f"--total_environment_frames={text}"]
    return config.parse(flags).learning.total_environment_frames


def test_whole_numbers_may_be_written_as_people_write_them():
    assert frames_of("2e8") == 200_000_000
    assert frames_of("1_000") == 1000


def test_switches_can_be_turned_on_and_off():
    assert config.parse(["--watch"]).trained.watch
    assert not config.parse(["--nopopart"]).algorithm.popart
    assert not config.parse(["--popart=false"]).algorithm.popart
    # As the page of all settings has them.
    assert not config.parse(["--popart=off"]).algorithm.popart
    assert config.parse(["--colour=on"]).level.colour


def test_flags_are_known_as_given_whatever_their_value():
    flags = [f"--level_name={Settings().level.level_name}", "--nopopart", "--seed", "1", "--watch"]
    assert config.given(flags) == {"level_name", "popart", "seed", "watch"}
    assert config.given(["--popart=true", "--video=--seed"]) == {"popart", "video"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lerning_rate=1"], ["--lerning_rate", "--learning_rate"]),
        (["--foo"], ["--foo", "--help"]),
        (["pong"], ["'pong'", "--NAME=VALUE"]),
        (["--batch_size=0"], ["--batch_size=0", "1 or more"]),
        (["--batch_size=2.5"], ["--batch_size", "2.5"]),
        (["--learning_rate=x"], ["--learning_rate: invalid number value: 'x'. --help lists"]),
        (["--nopopart=1"], ["--nopopart: takes no value: leave out '1'. --help lists"]),
        (["--seed=-1"], ["--seed=-1", "0 or more"]),
        (["--learning_rate=nan"], ["--learning_rate=nan", "finite"]),
        (["--learning_rate=0"], ["--learning_rate", "above 0"]),
        (["--peer_timeout_s=1e9"], ["--peer_timeout_s=1000000000.0", "86400 or less"]),
        (["--discounting=1.1"], ["--discounting=1.1", "1 or less"]),
        (["--precision=float16"], ["--precision", "float16", "bfloat16"]),
        (["--mode=tset"], ["--mode", "tset", "train"]),
        (["--episodic_life=maybe"], ["--episodic_life", "maybe"]),
        (["--batch_size"], ["--batch_size", "argument"]),
        (["--level_name=A,B,A"], ["A is given twice"]),
        (["--logdir=~/runs"], ["--logdir=~/runs", "$HOME"]),
        (["--mode=export", "--export_dir=~/agent"], ["--export_dir=~/agent", "$HOME"]),
        (["--mode=test", "--video=~/game.mp4"], ["--video=~/game.mp4", "$HOME"]),
        (["--level_name=A,,B"], ["--level_name=A,,B", "empty"]),
        (["--level_name=A,B,C", "--num_actors=2"], ["3 levels", "--num_actors=3"]),
        (["--agent_name=VectorAgnt"], ["--agent_name=VectorAgnt", "Did you mean VectorAgent"]),
        (["--level_name=Catch-v0", "--remotes=h:1+2"], ["--remotes: Catch-v0 is", "vnc:NAME"]),
        (["--level_name=Catch-v0", "--injected_lag_ms=9"], ["--injected_lag_ms=9: Catch-v0 is"]),
        (["--remote_password_file=x"], ["--remote_password_file=x: PongNoFrameskip-v4 is not"]),
        (["--mode=test", "--video=.gif"], ["--video=.gif", "FILE.gif"]),
        (["--mode=test", "--video=film.avi"], ["--video=film.avi", ".mp4", ".gif"]),
    ],
)
def test_a_wrong_flag_is_refused_by_name(flags, words):
    told = refusal(*flags)
    for word in words:
        assert word in told, told


@pytest.mark.parametrize(
    "address",
    [
        "localhost",
        "8001",
        ":8001",
        "here:",
        "here:port",
        "here:0",
        "here:65536",
        "here:-1",
        "here:²",
    ]
    + ["here..there:8001", f"{64 * 'h'}:8001", "[::x]:8001", "http://here:8001", "a/b:1"],
)
@pytest.mark.parametrize("job", ["learner", "actor"])
def test_an_address_that_is_none_is_refused(job, address):
    told = refusal(f"--job_name={job}", f"--learner_host={address}")
    assert f"--learner_host={address}: expected host:port" in told


@pytest.mark.parametrize("given", ["[::1]:8001", "::1:8001"])
def test_an_address_of_ipv6_is_known_with_brackets_and_without(given):
    settings = config.parse(["--job_name=actor", f"--learner_host={given}"])
    assert addresses.address(settings.remote.learner_host) == ("[::1]", 8001)


def test_actors_play_ahead_as_much_as_a_batch_needs():
    assert sizes.capacity(config.parse(["--batch_size=512"])) == 512
    assert sizes.capacity(config.parse(["--batch_size=512", "--replay_share=0.5"])) == 256
    settings = config.parse(["--num_actors=3", "--envs_per_actor=7", "--batch_size=4"])
    assert sizes.capacity(settings) == 21
    assert sizes.capacity(settings, bodies=5) == 30  # two whole games each
    assert sizes.capacity(settings.replace(queue_capacity=5)) == 5


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ([], 10),
        (["--batch_size=16"], 16),
        (["--batch_size=16", "--num_actors=3"], 11),
        (["--batch_size=16", "--num_actors=4"], 10),
        (["--batch_size=22", "--replay_share=0.5"], 11),
        (["--batch_size=512"], 32),
        (["--batch_size=32", "--envs_per_actor=3"], 3),
        (["--job_name=actor"], 10),
        (["--batch_size=32", "--job_name=actor"], 22),
        (["--batch_size=32", "--job_name=learner", "--replay_share=0.25"], 16),
        (["--batch_size=32", "--job_name=learner", "--envs_per_actor=3"], 3),
        (["--level_name=browser:dino,CartPole-v1"], 4),
        (["--level_name=CartPole-v1, browser:dino"], 4),
    ],
)
def test_actors_play_as_many_environments_as_batches_need(flags, wanted):
    assert sizes.envs_per_actor(config.parse(flags)) == wanted


@pytest.mark.parametrize(
    ("every", "wanted"), [(1, 1), (4, 4), (32, 32), (33, 11), (1000, 25), (10_000, 25), (37, 1)]
)
def test_few_updates_are_drawn_together(every, wanted):
    settings = config.parse(["--algorithm=dqn", f"--publish_every_updates={every}"])
    assert sizes.drawn_together(settings, 1) == wanted
    assert sizes.drawn_together(settings, 2) == 1


@pytest.mark.parametrize(
    "flags",
    [
        ["--algorithm=ppo", "--publish_every_updates=10"],
        ["--algorithm=a3c", "--publish_every_updates=10"],
        ["--algorithm=a3c", "--batch_size=4", "--envs_per_actor=16"],
        ["--algorithm=ppo", "--piece_length=200", "--minibatches=64"],
        ["--algorithm=a3c", "--job_name=learner", "--peers=a:1,b:1", "--learner_host=a:1",
         "--gradient_compression=bf16"],
    ],
)  # fmt: skip
def test_what_would_have_no_effect_is_refused(flags):
    with pytest.raises(UserError, match=flags[-1].partition("=")[0]):
        config.parse(flags)


@pytest.mark.parametrize(
    ("flag", "mode"),
    [
        ("--checkpoint=zoo:pong", "test"),
        ("--video=x.gif", "test"),
        ("--num_videos=2", "test"),
        ("--export_dir=here", "export"),
        ("--export_format=bundle", "export"),
        ("--opponent=random", "test"),
    ],
)
def test_a_training_refuses_what_is_for_a_trained_agent(flag, mode):
    assert f"{flag} is for --mode={mode}" in refusal(flag)
    config.parse([f"--mode={mode}", flag])


@pytest.mark.parametrize(
    ("mode", "flag", "wanted"),
    [
        ("export", "--video=x.gif", "test"),
        ("export", "--num_videos=2", "test"),
        ("export", "--grid=temperature=0,1", "test"),
        ("test", "--export_dir=here", "export"),
        ("test", "--export_format=bundle", "export"),
    ],
)
def test_a_mode_refuses_what_is_for_another_one(mode, flag, wanted):
    assert f"{flag} is for --mode={wanted}. Name the mode" in refusal(f"--mode={mode}", flag)


def test_desktops_are_for_a_run_in_which_one_level_at_least_is_played_on_them():
    config.parse(["--level_name=vnc:Catch-v0,Catch-v0", "--remotes=h:1+2", "--injected_lag_ms=9"])
    config.parse(["--mode=test", "--logdir=logs/desks", "--remotes=h:1+2"])  # of the run's level


def test_a_trainings_own_games_have_an_opponent():
    assert config.parse(["--opponent=random", "--evaluate_every_s=300"]).trained.opponent
    assert config.parse(["--opponent=random", "--watch"]).trained.opponent


@pytest.mark.parametrize(
    ("flags", "actors", "learners", "wanted"),
    [
        (["--algorithm=ppo", "--batch_size=16"], 4, 1, 4),
        (["--algorithm=ppo", "--batch_size=16"], 4, 2, 8),
        (["--algorithm=ppo", "--batch_size=16"], 3, 1, 6),
        (["--algorithm=ppo", "--batch_size=2"], 4, 1, 1),
        (["--algorithm=ppo", "--batch_size=16", "--envs_per_actor=3"], 4, 1, 3),
        (["--algorithm=ppo"], 0, 1, 0),
        ([], 4, 1, 0),
        (["--algorithm=a3c"], 4, 1, 0),
    ],
)
def test_actors_in_step_fill_a_batch_together(flags, actors, learners, wanted):
    settings = config.parse([*flags, "--job_name=actor"])
    assert sizes.filling(settings, actors, learners).actors.envs_per_actor == wanted


def test_agents_of_a_game_each_have_as_many_bodies_as_alone():
    settings = config.parse(["--algorithm=ppo", "--batch_size=8", "--job_name=actor"])
    several = settings.replace(agents="left,right")
    assert sizes.filling(several, actors=2, learners=1).actors.envs_per_actor == 8


def test_every_setting_says_what_it_is():
    for field in config.fields():
        assert len(field.metadata["help"]) > 10, field.name


def test_help_lists_every_flag_without_loading_tensorflow():
    started = subprocess.run(
        [sys.executable, "-X", "importtime", "experiment.py", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    for field in config.fields():
        assert f"--{field.name}" in started.stdout
    assert "tensorflow" not in started.stderr


def test_a_flag_of_another_algorithm_names_its_owners():
    with pytest.raises(UserError) as error:
        config.parse(["--gae_lambda=0.9"])
    owners = "--algorithm=ppo or a2c or a3c or reinforce"
    assert f"--gae_lambda is a setting of {owners}" in str(error.value)
    assert config.parse(["--gae_lambda=0.9", "--algorithm=ppo"]).algorithm.gae_lambda == 0.9
    with pytest.raises(UserError, match="--popart is a setting of --algorithm=impala"):
        config.parse(["--popart", "--algorithm=dqn"])
    with pytest.raises(UserError, match="--nopopart: --popart is a setting of --algorithm=impala"):
        config.parse(["--nopopart", "--algorithm=ppo"])
    with pytest.raises(UserError, match="--popart is a setting of --algorithm=impala"):
        options.parse(["--workers_csv_path=x", "--popart", "--algorithm=ppo"])
    with pytest.raises(TypeError, match="popart is a setting of --algorithm=impala"):
        Settings(algorithm="ppo", popart=True)


def test_an_algorithm_is_kept_by_its_name_whatever_its_capitals():
    assert config.parse(["--algorithm=PPO"]) == config.parse(["--algorithm=ppo"])
    dreams = Settings(algorithm="Simple", base_algorithm="PPO")
    assert dreams.program.algorithm == "simple"
    assert policy_settings(dreams).program.algorithm == "ppo"


def test_an_algorithm_has_its_own_defaults_of_other_settings():
    settings = config.parse(["--algorithm=ppo", "--level_name=CartPole-v1"])
    assert settings.actors.unroll_length == 128 == Settings(algorithm="ppo").actors.unroll_length
    assert config.to_flags(settings) == ["--level_name=CartPole-v1", "--algorithm=ppo"]
    changed = config.parse(["--algorithm=ppo", "--unroll_length=10"])
    assert changed.actors.unroll_length == 10
    assert "--unroll_length=10" in config.to_flags(changed)


def test_settings_can_be_those_of_another_algorithm():
    settings = Settings(level_name="CartPole-v1", discounting=0.9, unroll_length=7)
    changed = settings.replace(algorithm="PPO", epochs=3)
    assert changed == Settings(
        algorithm="ppo", level_name="CartPole-v1", discounting=0.9, unroll_length=7, epochs=3
    )
    assert Settings(algorithm="ppo").replace(algorithm="impala") == Settings()
    assert Settings(algorithm="ppo").replace(algorithm="a2c") == Settings(algorithm="a2c")
    with pytest.raises(TypeError, match="replay_share is a setting of --algorithm=impala"):
        Settings(replay_share=0.5).replace(algorithm="ppo")


@pytest.mark.parametrize("name", [None, 5, "pop"])
def test_an_algorithm_that_is_none_is_refused_in_settings_too(name):
    with pytest.raises(UserError, match=f"--algorithm={name} is not known"):
        Settings(algorithm=name)


def of_ones_own(monkeypatch: pytest.MonkeyPatch, name: str, **defaults: Any) -> str:
    """The name of an algorithm with one setting of this name, and defaults of others."""
    field = (name, float, setting(0.3, "Learning", "chance of a random action"))
    kind = dataclasses.make_dataclass("Own", [field], bases=(AlgorithmSettings,), frozen=True)
    monkeypatch.setattr(kind, "defaults", defaults)
    monkeypatch.setattr(sys.modules[__name__], "Own", kind, raising=False)
    return f"{__name__}:Own"


@pytest.mark.parametrize("name", ["epsilon", "seed", "task", "optimizer", "preset", "help"])
def test_an_algorithm_of_ones_own_cannot_take_the_name_of_another_setting(monkeypatch, name):
    own = of_ones_own(monkeypatch, name)
    words = f"its setting {name} has the name of another flag"
    assert words in refusal(f"--algorithm={own}")
    with pytest.raises(UserError, match=words):
        Settings(algorithm=own)
    own = of_ones_own(monkeypatch, "warmth")
    assert config.parse([f"--algorithm={own}", "--warmth=0.5"]).algorithm.warmth == 0.5


def test_a_default_of_what_is_no_setting_is_refused(monkeypatch):
    own = of_ones_own(monkeypatch, "warmth", batch_sise=4)
    assert "has batch_sise, which is no setting" in (said := refusal(f"--algorithm={own}"))
    assert "Did you mean batch_size" in said
    own = of_ones_own(monkeypatch, "warmth", batch_size=4, warmth=0.7)
    settings = config.parse([f"--algorithm={own}"])
    assert (settings.learning.batch_size, settings.algorithm.warmth) == (4, 0.7)
