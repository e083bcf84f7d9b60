"""The benchmark of environments runs and says what it compared."""

import pytest

from benchmarks.parts import environment_overhead


@pytest.mark.parametrize(
    ("level_name", "bare"),
    [("PongNoFrameskip-v4", "AtariVectorEnv, 4 frames"), ("CartPole-v1", "gymnasium.make_vec")],
)
def test_ours_stands_beside_the_bare_environment(level_name, bare, capsys, tmp_path):
    flags = [f"--level_name={level_name}", "--num_envs=1", "--num_steps=2", "--repeats=1"]
    environment_overhead.measure([*flags, f"--results={tmp_path}"])
    table = capsys.readouterr().out
    assert bare in table
    assert "environments.make" in table
