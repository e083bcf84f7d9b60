"""The benchmark of worker processes runs and says what it compared."""

import pytest

from benchmarks.parts import environment_processes
from user_error import UserError


def test_threads_and_processes_stand_beside_each_other(capsys, tmp_path):
    flags = ["--level_names=CartPole-v1", "--num_envs=2", "--actors=2", "--processes=1,2"]
    short = ["--seconds=0.01", "--repeats=1", f"--results={tmp_path}"]
    environment_processes.measure([*flags, *short])
    table = capsys.readouterr().out
    for way in ("actor's thread", "AsyncVectorEnv", "1 worker", "2 workers"):
        assert way in table


def test_games_with_threads_of_their_own_are_refused():
    with pytest.raises(UserError, match="PongNoFrameskip-v4 steps in threads of its emulators"):
        environment_processes.measure(["--level_names=PongNoFrameskip-v4"])
