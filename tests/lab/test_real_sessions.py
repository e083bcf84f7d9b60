"""The commands with real trainings."""

import json

from trainer.storage.records import read_metrics


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
