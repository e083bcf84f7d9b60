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
    assert any(note.startswith("slm.json: slm.body.product") for note in notes)
    assert any(note.startswith("slm.json: slm.env[0].max_episode: sessions are") for note in notes)


def test_episodes_become_frames_by_the_longest_episode():
    assert read(agent({"name": "DQN"})).total_frames == 10 * 500


def test_numbers_of_updates_come_from_several_keys():
    algorithm = {"name": "DoubleDQN", "training_frequency": 4, "training_epoch": 2,
                 "training_iters_per_batch": 3}  # fmt: skip
    net = {"type": "MLPNet", "update_type": "polyak", "polyak_weight": 0.9, "batch_size": 16}
    found = read(agent(algorithm, {"name": "PrioritizedReplay", "max_size": 1000}, net)).settings
    assert found["updates_per_step"] == 1.5 and found["target_step"] == 0.1
    assert found["algorithm"] == "double_dqn" and found["replay_steps"] == 1000
    assert "priority_exponent" not in found  # Double DQN's own
    assert read(agent(algorithm)).settings["priority_exponent"] == 0.0


def test_an_actor_critic_without_gae_or_entropy():
    algorithm = {"name": "ActorCritic", "use_GAE": False, "lamda": 0.9, "add_entropy": False,
                 "num_step_returns": 20, "training_frequency": 7}  # fmt: skip
    found = read(agent(algorithm)).settings
    assert found["algorithm"] == "a2c" and found["unroll_length"] == 20
    assert found["gae_lambda"] == 1.0 and found["entropy_cost"] == 0.0


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
        ({"agent": []}, "slm.agent: found []; expected exactly one agent"),
        ({"env": [{"name": "Pong-v0"}, {"name": "CartPole-v1"}]}, "expected exactly one env"),
        ({"search": {"agent": [{"net": {"hid_layers_activation__choice": ["relu"]}}]}},
         "search.agent[0].net.hid_layers_activation__choice"),
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
