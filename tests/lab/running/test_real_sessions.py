"""The commands with real trainings."""

import json

from trainer.machine.launching import PROJECT
from trainer.storage.records import read_metrics

EXAMPLES = PROJECT / "lab" / "examples"


def test_a_spec_is_tried_played_and_repeated(lab):
    spec = lab.write(
        {"level": "CartPole-v1", "algorithm": "a2c", "settings": {"env_threads": 1},
         "meta": {"sessions": 2, "resources": {"memory_gb": 0.5}}}
    )  # fmt: skip
    said = lab.run("dev", spec, "--data=data", "--detach", real=True)
    assert "runs in process" in said
    lab.wait()
    trial = lab.trials()[0]
    assert trial["state"] == "done" and trial["results"]["best_return"] > 5
    assert json.loads((lab.only / "random_play.json").read_text())["CartPole-v1"]["episodes"] == 100
    for place, seed in ((0, 1), (1, 2)):
        folder = lab.only / "sessions" / f"t0_s{place}"
        settings = json.loads((folder / "settings.json").read_text())
        assert settings["seed"] == seed and settings["algorithm"] == "a2c"
        assert read_metrics(folder)[-1]["environment_frames"] >= 5000
    said = lab.run("enjoy", "--data=data", "--", "--test_num_episodes=2", real=True)
    assert "Playing 2 games per level" in said
    refused = lab.run("enjoy", "--data=data", "--", "--nothing=2", code=2, real=True)
    assert "there is no flag --nothing" in refused


def test_specs_of_slm_lab_train(lab):
    listed = {}
    for name, short in (("slm_dqn", {"max_frame": 2000}), ("slm_reinforce", {"max_episode": 10})):
        [(spec, content)] = json.loads((EXAMPLES / f"{name}.json").read_text()).items()
        content["env"][0] |= short
        content["agent"][0]["memory"]["use_own"] = 1
        content["meta"]["max_session"] = 1
        (lab.folder / f"{name}.json").write_text(json.dumps({spec: content}))
        listed[f"{name}.json"] = {spec: "train"}
    (lab.folder / "both.json").write_text(json.dumps(listed))
    said = lab.run("run", "both.json", "--data=data", real=True)
    assert (
        said.count("memory.use_own: 1 has no counterpart here") == 2 and said.count("t0 done") == 2
    )
    for name, algorithm in (("dqn_cartpole", "dqn"), ("reinforce_cartpole", "reinforce")):
        [folder] = lab.data.glob(f"{name}_*/sessions/t0_s0")
        settings = json.loads((folder / "settings.json").read_text())
        assert settings["algorithm"] == algorithm and settings["hidden_sizes"] == "64"
        last = read_metrics(folder)[-1]
        assert last["environment_frames"] >= 2000 and last["updates"] > 0
    # An episode of the other one has 200 steps at most.
    assert settings["env_kwargs"] == '{"max_episode_steps": 200}'
