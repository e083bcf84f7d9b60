"""Specs in SLM Lab's layout, written here in its words, and what becomes of them."""

import json

import pytest

from lab.specs import spec as specs
from trainer.machine.launching import PROJECT
from user_error import UserError

EXAMPLES = PROJECT / "lab" / "examples"


def agent(algorithm: dict, memory: dict | None = None, net: dict | None = None) -> dict:
    return {
        "agent": [
            {
                "name": "it",
                "algorithm": algorithm,
                "memory": memory or {"name": "Replay"},
                "net": net or {"type": "MLPNet", "hid_layers": [64, 32]},
            }
        ],
        "env": [{"name": "CartPole-v1", "max_timestep": None, "max_episode": 10}],
        "body": {"product": "outer", "num": 1},
        "meta": {"max_session": 4, "max_trial": 3, "search": "RandomSearch"},
    }


def read(content: dict):
    return specs.parse("slm", content, "slm.json")


def test_the_examples_are_translated():
    dqn = specs.read(EXAMPLES / "slm_dqn.json", "dqn_cartpole")
    assert dqn.settings["algorithm"] == "dqn" and dqn.levels == ["CartPole-v1"]
    assert dqn.settings["hidden_sizes"] == "64" and dqn.meta.sessions == 4
    assert [one.key for one in dqn.searched] == ["discounting__choice", "learning_rate__uniform"]
    reinforce = specs.read(EXAMPLES / "slm_reinforce.json", "reinforce_cartpole")
    assert reinforce.settings["algorithm"] == "reinforce"


def test_all_that_has_no_counterpart_is_named_with_its_place():
    notes = read(
        agent({"name": "DQN", "action_policy": "boltzmann", "training_frequency": 2})
    ).notes
    assert (
        'slm.json: slm.agent[0].algorithm.action_policy: "boltzmann" has no counterpart here and '
        "is left out." in notes
    )
    assert any(note.startswith("slm.json: slm.env[0].max_episode: sessions are") for note in notes)


def left_out(content: dict) -> list[str]:
    """The places of what has no counterpart, without file and name."""
    return [note.split(": ")[1].removeprefix("slm.") for note in read(content).notes]


@pytest.mark.parametrize(
    ("algorithm", "memory", "net", "places"),
    [
        # What is the same here needs no line.
        ({"name": "DQN", "action_policy": "epsilon_greedy", "action_pdtype": "Argmax",
          "explore_var_spec": {"name": "linear_decay", "start_step": 0, "end_step": 9}}, {},
         {"type": "MLPNet", "hid_layers_activation": "tanh", "optim_spec": {"name": "Adam"},
          "gpu": False, "lr_scheduler_spec": {"name": "LinearToZero", "frame": 9},
          "update_type": "polyak"}, []),
        ({"name": "DQN", "explore_var_spec": {"name": "rate_decay", "start_step": 5}},
         {"name": "SILReplay", "use_cer": True}, {},
         ["algorithm.explore_var_spec.name", "algorithm.explore_var_spec.start_step",
          "memory.name", "memory.use_cer"]),
        ({"name": "DQN"}, {},
         {"type": "DuelingMLPNet", "shared": False, "use_same_optim": False, "gpu": True,
          "hid_layers_activation": "relu", "optim_spec": {"name": "RAdam"},
          "lr_scheduler_spec": {"name": "StepLR", "step_size": 1000}, "update_type": "none"},
         ["net.type", "net.shared", "net.use_same_optim", "net.gpu", "net.optim_spec.name",
           "net.lr_scheduler_spec", "net.update_type"]),
        ({"name": "ActorCritic", "training_epoch": 3, "num_step_returns": 5,
          "training_frequency": 7, "action_policy": "epsilon_greedy"}, {}, {},
         ["algorithm.training_epoch", "algorithm.training_frequency", "algorithm.action_policy"]),
        ({"name": "PPO", "minibatch_size": 64}, {}, {}, ["algorithm.minibatch_size"]),
    ],
)  # fmt: skip
def test_each_key_or_value_without_a_counterpart_has_its_line(algorithm, memory, net, places):
    content = agent(algorithm, {"name": "Replay"} | memory, {"type": "MLPNet"} | net)
    content["env"][0] = {"name": "CartPole-v1", "max_frame": 1000}
    assert sorted(left_out(content)) == sorted(f"agent[0].{place}" for place in places)


def test_other_parts_and_searched_keys_without_a_counterpart_have_their_lines():
    content = agent({"name": "DQN"}) | {
        "env": [{"name": "CartPole-v1", "max_frame": 1000, "max_episode": 9, "frame_op": "concat"}],
        "meta": {"search": "HyperSearch", "log_frequency": 500, "max_trial": 2},
        "git_SHA": "abc",
        "search": {
            "agent": [{"algorithm": {"gamma__uniform": [0.9, 0.99]}, "net": {"gpu__choice": [1]}}],
            "env": [{"name__choice": ["CartPole-v1"]}],
            "body": {"num__choice": [1, 2]},
            "meta": {"max_session": [1, 2]},
        },
    }
    assert sorted(left_out(content)) == [
        "env[0].frame_op", "env[0].max_episode", "git_SHA", "meta.log_frequency", "meta.search",
        "search.agent[0].net.gpu__choice", "search.body.num__choice",
        "search.env[0].name__choice", "search.meta.max_session",
    ]  # fmt: skip
    assert [one.key for one in read(content).searched] == ["discounting__uniform"]


def test_episodes_are_as_long_as_the_spec_says():
    content = agent({"name": "DQN"})
    content["env"] = [{"name": "CartPole-v1", "max_timestep": 50, "max_episode": 10}]
    spec = read(content)
    assert spec.total_frames == 500 and spec.settings["env_kwargs"] == '{"max_episode_steps": 50}'
    content["env"] = [{"name": "PongNoFrameskip-v4", "max_t": 100, "max_frame": 9000}]
    content["agent"][0]["net"]["type"] = "ConvNet"
    for name in ("PongNoFrameskip-v4", "PongDeterministic-v4", "Pong-v0", "pong"):
        content["env"][0]["name"] = name
        settings = read(content).settings
        assert settings["max_episode_frames"] == 400 and "env_kwargs" not in settings


@pytest.mark.parametrize("key", ["max_t", "max_timestep"])
def test_a_limit_of_episodes_that_a_level_does_not_have_has_its_line(key):
    """Arguments of Unity's builds are parameters of their own."""
    content = agent({"name": "DQN"})
    content["env"] = [{"name": "gridworld", key: 50, "max_frame": 1000}]
    assert left_out(content) == [f"env[0].{key}"]
    spec = read(content)
    assert spec.levels == ["unity:gridworld"] and "env_kwargs" not in spec.settings


def test_the_size_of_a_minibatch_becomes_their_number():
    algorithm = {"name": "PPO", "time_horizon": 32, "minibatch_size": 64, "training_epoch": 4}
    content = agent(algorithm, {"name": "OnPolicyBatchReplay"})
    content["env"][0]["num_envs"] = 8
    spec = read(content)
    assert (spec.settings["unroll_length"], spec.settings["batch_size"]) == (32, 8)
    assert spec.settings["minibatches"] == 4 and spec.settings["epochs"] == 4
    assert not any("minibatch_size" in note for note in spec.notes)


def test_episodes_become_frames_by_the_longest_episode():
    content = agent({"name": "DQN"})
    content["env"][0]["max_frame"] = None
    spec = read(content)
    assert spec.total_frames == 10 * 500 and "max_episode: sessions are as long" in spec.notes[-1]


def test_numbers_of_updates_come_from_several_keys():
    algorithm = {"name": "DoubleDQN", "training_frequency": 4, "training_epoch": 2,
                 "training_iters_per_batch": 3}  # fmt: skip
    net = {"type": "MLPNet", "update_type": "polyak", "polyak_weight": 0.9, "batch_size": 16}
    found = read(agent(algorithm, {"name": "PrioritizedReplay", "max_size": 1000}, net)).settings
    assert found["updates_per_step"] == 1.5 and found["target_step"] == 0.1
    assert found["algorithm"] == "double_dqn" and found["replay_steps"] == 1000
    assert "priority_exponent" not in found  # Double DQN's own
    assert found["n_steps"] == 1
    assert read(agent(algorithm)).settings["priority_exponent"] == 0.0


def test_environments_that_step_together_are_learned_from_once_a_step():
    content = agent({"name": "DQN", "training_frequency": 1, "training_iter": 4})
    content["env"][0]["num_envs"] = 8
    assert read(content).settings["updates_per_step"] == 0.5


def test_a_target_network_is_copied_after_as_many_steps():
    content = agent({"name": "DQN", "training_frequency": 4})
    content["agent"][0]["net"] |= {"update_type": "replace", "update_frequency": 400}
    content["search"] = {"agent.net.update_frequency__choice": [200, 1]}
    spec = read(content)
    assert spec.settings["target_every"] == 100
    assert [one.values for one in spec.searched] == [(50, 1)]
    content["search"] = {"agent.net.update_frequency__randint": [200, 800]}
    assert [one.values for one in read(content).searched] == [(50, 199)]


@pytest.mark.parametrize(
    ("env", "frames"),
    [
        ({"name": "PongNoFrameskip-v4", "max_frame": 1000}, 4000),
        ({"name": "PongDeterministic-v4", "max_frame": 1000}, 4000),
        ({"name": "Pong-v4", "max_frame": 1000}, 4000),
        ({"name": "pong", "max_frame": 1000}, 4000),
        ({"name": "PongNoFrameskip-v4", "max_t": 50, "max_episode": 10}, 2000),
        ({"name": "PongNoFrameskip-v4", "max_episode": 10}, 1_080_000),
        ({"name": "CartPole-v1", "max_frame": 1000}, 1000),
    ],
)
def test_what_is_called_a_frame_there_is_a_step_of_the_agent(env, frames):
    content = agent({"name": "DQN"}, net={"type": "ConvNet"})
    content["env"] = [env]
    if env["name"] == "CartPole-v1":
        content["agent"][0]["net"]["type"] = "MLPNet"
    assert read(content).total_frames == frames


def test_one_agent_and_one_environment_need_no_lists():
    content = agent({"name": "DQN", "gamma": 0.9})
    [content["agent"]], [content["env"]] = content["agent"], content["env"]
    content["search"] = {
        "agent.algorithm.gamma__uniform": [0.9, 0.99],
        "agent.net.hid_layers__choice": [[32], [64, 32]],
        "env.name__choice": ["CartPole-v1"],
    }
    content["meta"]["search_scheduler"] = {"grace_period": 500, "reduction_factor": 3}
    spec = read(content)
    assert spec.settings["discounting"] == 0.9 and spec.meta.early_stopping == "halving"
    assert [one.key for one in spec.searched] == ["discounting__uniform", "hidden_sizes__choice"]
    assert "search.env[0].name__choice" in left_out(content)


def actor_critic(**net) -> dict:
    """One with optimizers of its own, in a memory of batches."""
    adam = {"name": "Adam", "lr": 0.005}
    algorithm = {"name": "ActorCritic", "num_step_returns": None, "training_frequency": 32,
                 "entropy_coef_spec": {"name": "no_decay", "start_val": 0.02, "end_val": 0.02,
                                       "start_step": 0, "end_step": 0}}  # fmt: skip
    net = {"type": "MLPNet", "actor_optim_spec": adam, "critic_optim_spec": adam} | net
    content = agent(algorithm, {"name": "OnPolicyBatchReplay"}, net)
    content["env"][0] = {"name": "CartPole-v1", "max_frame": 1000, "num_envs": 4}
    return content


def test_an_actor_and_a_critic_with_optimizers_and_networks_of_their_own():
    content = actor_critic(shared=False, loss_spec={"name": "MSELoss"}, gpu="auto")
    found = read(content).settings
    assert not left_out(content)
    assert (found["optimizer"], found["learning_rate"]) == ("adam", 0.005)
    assert (found["unroll_length"], found["batch_size"]) == (32, 4)
    assert found["separate_baseline"] == "on" and found["entropy_cost"] == 0.02
    assert read(actor_critic(shared=True)).settings["separate_baseline"] == "off"
    faster = {"name": "Adam", "lr": 0.01}
    own = left_out(actor_critic(critic_optim_spec=faster))
    assert own == ["agent[0].net.critic_optim_spec.lr"]
    assert not left_out(actor_critic(critic_optim_spec=faster, use_same_optim=True))


def test_an_entropy_that_falls_over_the_whole_session():
    content = actor_critic()
    spec = content["agent"][0]["algorithm"]["entropy_coef_spec"]
    spec |= {"name": "linear_decay", "end_val": 0.002, "end_step": 1000}
    found = read(content).settings
    assert not left_out(content)
    assert (found["entropy_cost"], found["entropy_cost_end"]) == (0.02, 0.002)
    spec |= {"start_step": 100, "end_step": 500}
    where = "agent[0].algorithm.entropy_coef_spec"
    assert left_out(content) == [f"{where}.start_step", f"{where}.end_step"]
    spec |= {"name": "rate_decay"}
    assert left_out(content) == [f"{where}.name"]
    assert "entropy_cost_end" not in read(content).settings


@pytest.mark.parametrize(
    ("name", "memory", "is_counted"),
    [
        ("Reinforce", "OnPolicyReplay", True),
        ("Reinforce", "OnPolicyBatchReplay", False),
        ("ActorCritic", "OnPolicyReplay", False),
        ("ActorCritic", "OnPolicyBatchReplay", True),
    ],
)
def test_memories_say_whether_steps_or_episodes_are_counted(name, memory, is_counted):
    content = agent({"name": name, "training_frequency": 7}, {"name": memory})
    place = "agent[0].algorithm.training_frequency"
    assert (place not in left_out(content)) == is_counted
    setting = "batch_size" if name == "Reinforce" else "unroll_length"
    assert (read(content).settings.get(setting) == 7) == is_counted


def test_an_actor_critic_without_gae_or_entropy():
    algorithm = {"name": "ActorCritic", "use_GAE": False, "lamda": 0.9, "add_entropy": False,
                 "num_step_returns": 20, "training_frequency": 7}  # fmt: skip
    content = agent(algorithm)
    content["env"][0]["num_envs"] = 3
    found = read(content).settings
    assert found["algorithm"] == "a2c" and found["unroll_length"] == 20
    assert found["batch_size"] == found["envs_per_actor"] == 3
    assert found["gae_lambda"] == 1.0 and found["entropy_cost"] == 0.0


def test_the_weight_of_values_doubles_because_their_loss_is_half_of_the_squared_error():
    content = agent({"name": "ActorCritic", "val_loss_coef": 0.5, "num_step_returns": 5})
    assert read(content).settings["baseline_cost"] == 1.0
    for kind, here in [("choice", (1.0, 0.5)), ("uniform", (0.5, 2.0)), ("loguniform", (0.5, 2.0)),
                       ("normal", (2.0, 0.5))]:  # fmt: skip
        given = [one / 2 for one in here]
        content["search"] = {"agent": [{"algorithm": {f"val_loss_coef__{kind}": given}}]}
        assert [one.values for one in read(content).searched] == [here]
    content["search"] = {"agent": [{"algorithm": {"val_loss_coef__randint": [1, 3]}}]}
    assert "search.agent[0].algorithm.val_loss_coef__randint" in left_out(content)
    content = agent({"name": "DQN"})
    content["search"] = {"agent": [{"net": {"polyak_coef__uniform": [0.9, 0.99]}}]}
    assert [one.values for one in read(content).searched] == [(0.01, 0.1)]


def test_the_search_is_translated_with_its_values():
    content = agent({"name": "DQN"})
    content["search"] = {
        "agent": [
            {"net": {"hid_layers__choice": [[32], [64, 32]], "optim": {"lr__uniform": [0, 1]}}}
        ]
    }
    content["search"]["agent"][0]["net"]["optim"]["lr__uniform"] = [0.001, 0.1]
    found = {one.key: one.values for one in read(content).searched}
    assert found["hidden_sizes__choice"] == ("32", "64,32")
    assert found["learning_rate__uniform"] == (0.001, 0.1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agent": []}, "slm.agent: found []; expected one agent: it can play all bodies of a"),
        ({"env": [{"name": "Pong-v0"}, {"name": "CartPole-v1"}]},
         "expected one env: one agent learns several levels by a spec of this lab, with levels"),
        ({"search": {"agent": [{"net": {"hid_layers__chioce": [[1]]}}]}},
         "search.agent[0].net.hid_layers__chioce: found [[1]]; expected a kind of choice"),
        ({"search": {"agent": [{"algorithm": {"gamma__choice": 0.99}}]}},
         "search.agent[0].algorithm.gamma__choice: found 0.99; expected a list such as"),
        ({"env": [{"name": "CartPole-v1", "num_envs": "x"}]},
         'slm.env[0].num_envs: found "x"; expected a number'),
        ({"env": [{"name": "CartPole-v1", "max_frame": float("nan")}]},
         "slm.env[0].max_frame: found NaN; expected a number"),
        ({"agent": [{"algorithm": {"name": ["DQN"]}}]},
         'algorithm.name: found ["DQN"]; expected one of SLM Lab'),
        ({"search": {"body": [1]}}, "slm.search.body: found [1]; expected keys with values"),
        ({"meta": 3}, "slm.meta: found 3; expected keys with values"),
        ({"env": [{"name": "CartPol-v1"}]}, "there is no level 'CartPol-v1'"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated_is_refused(change, words):
    with pytest.raises(UserError) as error:
        read(agent({"name": "DQN"}) | change)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_algorithm_is_refused_with_the_nearest():
    with pytest.raises(UserError, match=r'algorithm.name: found "DQNN"; .* Did you mean DQN'):
        read(agent({"name": "DQNN"}))


def test_a_translated_spec_is_an_ordinary_one():
    spec = read(agent({"name": "Reinforce", "training_frequency": 2, "gamma": 0.99}))
    assert specs.parse("slm", json.loads(json.dumps(spec.content())), "f").settings == spec.settings


@pytest.mark.parametrize(
    ("net", "schedule"),
    [
        ({}, "constant"),
        ({"decay_lr": None}, "constant"),
        ({"lr_scheduler_spec": None}, "constant"),
        ({"lr_scheduler_spec": {"name": "LinearToZero"}}, "linear"),
    ],
)
def test_the_learning_rate_falls_only_where_a_spec_says_so(net, schedule):
    content = agent({"name": "Reinforce"})
    content["agent"][0]["net"] |= net
    assert read(content).settings["learning_rate_schedule"] == schedule
