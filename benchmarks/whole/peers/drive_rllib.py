"""RLlib's IMPALA (new API) on an Atari game; run by a Python that has it, with its work as JSON.

Each runner steps a batch of environments; the learner is in the driver's process. Prints how many
agent steps were trained on, see ``benchmarks.whole.peers.running``.
"""

import json
import os
import sys
import time

# RLlib sends usage reports to its makers unless disabled.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
import torch
from ale_py.vector_env import AtariVectorEnv
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.tune.registry import register_env
from torch import nn

ENV = "atari"
SECTIONS, BLOCKS = (16, 32, 32), 2


def convolutions(channels):
    """The torso of SimpleConvNetAgent."""
    return nn.Sequential(
        *[nn.Conv2d(channels, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()],
        *[nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU()],
    )


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.inner = nn.Sequential(
            *[nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)],
            *[nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)],
        )

    def forward(self, x):
        return x + self.inner(x)


def residual(channels):
    """The torso of ResNetAgent."""
    layers = []
    for width in SECTIONS:
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.MaxPool2d(3, 2, 1)]
        layers += [Block(width) for _ in range(BLOCKS)]
        channels = width
    return nn.Sequential(
        *[*layers, nn.ReLU(), nn.Flatten(), nn.Linear(channels * 11 * 11, 256), nn.ReLU()]
    )


class Network(TorchRLModule, ValueFunctionAPI):
    """A torso that policy and baseline share."""

    def setup(self):
        channels = self.observation_space.shape[0]
        make, width = {
            "SimpleConvNetAgent": (convolutions, 512),
            "ResNetAgent": (residual, 256),
        }[self.model_config["agent_name"]]
        self.torso = make(channels)
        self.policy = nn.Linear(width, self.action_space.n)
        self.baseline = nn.Linear(width, 1)

    def features(self, batch):
        return self.torso(batch[Columns.OBS].float() / 255.0)

    def _forward(self, batch, **_):
        return {Columns.ACTION_DIST_INPUTS: self.policy(self.features(batch))}

    def _forward_train(self, batch, **_):
        features = self.features(batch)
        return {Columns.ACTION_DIST_INPUTS: self.policy(features), Columns.EMBEDDINGS: features}

    def compute_values(self, batch, embeddings=None):
        features = self.features(batch) if embeddings is None else embeddings
        return self.baseline(features).squeeze(-1)


def config(work):
    """What RLlib calls the same work."""

    def environments(context):
        return AtariVectorEnv(work["rom"], context["num_envs"], num_threads=0)

    register_env(ENV, environments)
    steps = work["unroll_length"] * work["batch_size"]
    return (
        IMPALAConfig()
        .environment(ENV)
        .env_runners(
            num_env_runners=work["runners"],
            num_envs_per_env_runner=work["envs"],
            rollout_fragment_length=work["unroll_length"],
            gym_env_vectorize_mode="vector_entry_point",
        )
        # In the driver's process. In a separate one, many frames are thrown away.
        .learners(num_learners=0)
        # Without waiting a while for samples, the driver would look for them all the time.
        .training(train_batch_size_per_learner=steps, timeout_s_sampler_manager=1.0)
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=Network, model_config={"agent_name": work["agent_name"]}
            )
        )
        .reporting(min_time_s_per_iteration=1)
        .debugging(seed=work["seed"])
    )


def trained(result):
    """Rows that the learner was given; one of each unroll is added for its bootstrap."""
    modules = result.get("learners", {}).get("__all_modules__", {})
    return modules.get("num_env_steps_trained_lifetime", 0)


def main(work):
    torch.manual_seed(work["seed"])
    ray.init(include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    algorithm = config(work).build_algo()
    share = work["unroll_length"] / (work["unroll_length"] + 1)
    while True:
        steps = trained(algorithm.train()) * share
        print("PROGRESS " + json.dumps({"steps": steps, "time": time.time()}), flush=True)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
