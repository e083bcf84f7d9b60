"""The peers' drivers, each against a small stand-in for its library: what they ask of it, and what
they say of how far it has come."""

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from benchmarks.whole.peers import running
from benchmarks.whole.peers.known import PEERS, UNTIL_PEERS, Peer
from benchmarks.whole.peers.running import Work

pytestmark = pytest.mark.xdist_group("benchmarks")

# Modules that hold whatever is asked of them, but for what a test puts in.
RUNNER = """
import runpy, sys, types

class Anything:
    def __init__(self, *given, **named): pass
    def __init_subclass__(cls, **named): pass

class Fake(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return type(name, (Anything,), {})

def fake(name, **has):
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = sys.modules.setdefault(".".join(parts[:end]), Fake(".".join(parts[:end])))
        if end > 1: setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], module)
    vars(sys.modules[name]).update(has)

{library}
driver, work = sys.argv[1:]
sys.argv = [driver, work]
runpy.run_path(driver, run_name="__main__")
"""

RLLIB = """
class Config:
    def __init__(self): self.asked = {}
    def __getattr__(self, name):
        def called(*given, **named):
            self.asked.update(named)
            return self
        return called
    def build_algo(self):
        asked = self.asked
        assert asked["num_envs_per_env_runner"] == 32 and asked["seed"] == 1, asked
        assert asked["num_env_runners"] == 2, asked
        assert asked["train_batch_size_per_learner"] == 640, asked
        return Algorithm()

class Algorithm:
    turns = 0
    def train(self):
        self.turns += 1
        if self.turns > 3: raise SystemExit(0)
        if self.turns == 1: return {}  # before the first update
        steps = {"num_env_steps_trained_lifetime": 672 * (self.turns - 1)}
        return {"learners": {"__all_modules__": steps}}

fake("torch", manual_seed=lambda seed: None, nn=None)
fake("torch.nn", Module=object)
fake("ale_py.vector_env")
fake("ray", init=lambda **named: None)
for name in ("algorithms.impala", "core.columns", "core.rl_module.apis.value_function_api",
             "core.rl_module.rl_module", "core.rl_module.torch"):
    fake("ray.rllib." + name)
vars(sys.modules["ray.rllib.algorithms.impala"])["IMPALAConfig"] = Config
fake("ray.tune.registry", register_env=lambda name, made: None)
"""

SAMPLE_FACTORY = """
import time
class Learner:
    def _record_summaries(self, variables): return variables.mb["advantages"]

class Runner:
    def __init__(self): self.env_steps = {0: 0, 1: 0}
    def init(self): pass
    def run(self):
        found = Learner._record_summaries(
            Learner(), types.SimpleNamespace(mb={}, adv="advantages of V-trace"))
        assert found == "advantages of V-trace"
        worker = sys.modules["sample_factory.algo.learning.learner_worker"]
        assert worker.init_torch_runtime("cfg") == ("cfg", 2)
        for _ in range(3):
            self.env_steps[0] += 320
            self.env_steps[1] += 320
            time.sleep(0.7)
        return 0

    @property
    def policy_avg_stats(self):
        count = self.env_steps[0] // 320 * 50
        return {"reward": [[-21.0] * 7 + [19.0] * count]} if count else {}

def parsed(arguments, *more):
    assert "--batch_size=640" in arguments and "--rollout=20" in arguments, arguments
    assert "--encoder_conv_architecture=convnet_atari" in arguments
    assert "--num_workers=2" in arguments, arguments
    return None, None

fake("envpool")
def init_torch_runtime(cfg, max_num_threads=1): return cfg, max_num_threads

fake("sample_factory.algo.learning.learner", Learner=Learner)
fake("sample_factory.algo.learning.learner_worker", init_torch_runtime=init_torch_runtime)
fake("sample_factory.cfg.arguments", parse_sf_args=parsed, parse_full_cfg=lambda *given: None)
fake("sample_factory.envs.env_utils", register_env=lambda name, made: None)
fake("sample_factory.train", make_runner=lambda cfg: (cfg, Runner()))

def published(arguments):
    assert "--num_workers=2" in arguments and "--seed=1" in arguments, arguments
    assert not any("batch_size" in flag or "vtrace" in flag for flag in arguments), arguments

fake("sf_examples.envpool.atari.train_envpool_atari", parse_atari_args=published)
"""

SB3 = """
import time
class Callback:
    def __init__(self): pass

class PPO:
    def __init__(self, policy, envs, **asked):
        assert (policy, envs) == ("MlpPolicy", ("CartPole-v1", 8, 1)), (policy, envs)
        # A schedule falls from its start to nothing.
        assert asked["learning_rate"](0.5) == 0.0005 and asked["n_steps"] == 32, asked
        self.ep_info_buffer, self.num_timesteps = [], 0
    def learn(self, steps, callback):
        callback.model = self
        assert steps == 100_000
        for turn in range(1, 4):
            callback.num_timesteps = 640 * turn
            if turn > 1: self.ep_info_buffer = [{"r": 100.0 * turn}] * 100
            time.sleep(0.25)
            assert callback._on_step()

fake("ale_py")
fake("gymnasium", register_envs=lambda envs: None)
fake("torch", set_num_threads=lambda count: None, nn=types.SimpleNamespace(ReLU=None))
fake("stable_baselines3", PPO=PPO)
fake("stable_baselines3.common.callbacks", BaseCallback=Callback)
fake("stable_baselines3.common.env_util",
     make_vec_env=lambda level, n_envs, seed, vec_env_cls: (level, n_envs, seed))
fake("stable_baselines3.common.vec_env")
"""

ATARI = Work("pong", "SimpleConvNetAgent", 20, 32, 32, 1)._asdict()
CARTPOLE = {
    "algorithm": "ppo", "level": "CartPole-v1", "seed": 1, "threads": 1, "processes": False,
}  # fmt: skip
PONG = {
    "algorithm": "ppo", "level": "PongNoFrameskip-v4", "seed": 1, "threads": 2, "workers": 2,
}  # fmt: skip
LIBRARIES = {
    "rllib": (RLLIB, ATARI | {"runners": 2}),
    "sample_factory": (SAMPLE_FACTORY, ATARI | {"threads": 2, "workers": 2}),
    "sb3": (SB3, CARTPOLE),
}


def said(peer: Peer, tmp_path: Any) -> str:
    """What a driver prints."""
    library, work = LIBRARIES[peer.key]
    if peer.works:
        work = PONG if peer.key == "sample_factory" else work
    program = tmp_path / "runner.py"
    program.write_text(RUNNER.replace("{library}", textwrap.dedent(library)))
    done = subprocess.run(
        [sys.executable, str(program), str(peer.driver), json.dumps(work)],
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("peer", [*PEERS, *UNTIL_PEERS], ids=lambda peer: peer.key)
def test_a_driver_says_how_many_agent_steps_its_library_has_trained_on(peer: Peer, tmp_path):
    text = said(peer, tmp_path)
    told = running.lines(text)
    steps, times = ([point[name] for point in told] for name in ("steps", "time"))
    assert times == sorted(times)
    assert steps == sorted(steps) and set(steps) <= {0.0, 640.0, 1280.0, 1920.0}, text
    if peer.key == "sample_factory":  # which is looked at now and then
        assert max(steps) >= 640.0
        returns = {line["steps"]: line["return"] for line in running.lines(text)}
        # Of a hundred episodes: at first there are fewer, then the oldest are forgotten.
        assert returns[640.0] is None and returns.get(1920.0, 19.0) == 19.0
    else:
        first = 0.0 if peer.key == "rllib" else 640.0
        assert steps == [first, first + 640.0, first + 1280.0]
    if peer.key == "sb3":
        assert [line["return"] for line in running.lines(text)] == [None, 200.0, 300.0]
        assert text.endswith("trained for all of its steps\n")
