"""Stable-Baselines3 with the settings of its zoo; run by a Python that has it, its work as JSON.

Prints how many steps were played, and the mean return of the last 100 training episodes, see
``benchmarks.whole.peers.running``. The settings are those that RL Baselines3 Zoo publishes for
these levels (of HalfCheetah for version 3 of it); schedules that fall with the training are marked
by "lin".
"""

import json
import sys
import time
from typing import Any

import ale_py
import gymnasium
import torch
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecNormalize,
)

gymnasium.register_envs(ale_py)

TELL_EVERY_S = 0.2
EPISODES = 100
ALGORITHMS = {"ppo": PPO, "a2c": A2C, "dqn": DQN}
# n_envs, steps and normalize (of observations and rewards) belong to the zoo's settings, too; all
# else are arguments of the algorithm.
ZOO: dict[tuple[str, str], dict[str, Any]] = {
    ("ppo", "CartPole-v1"): {
        "n_envs": 8, "steps": 100_000, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8,
        "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0, "learning_rate": "lin 0.001",
        "clip_range": "lin 0.2",
    },
    ("ppo", "LunarLander-v3"): {
        "n_envs": 16, "steps": 1_000_000, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98,
        "gamma": 0.999, "n_epochs": 4, "ent_coef": 0.01,
    },
    ("ppo", "PongNoFrameskip-v4"): {
        "n_envs": 8, "steps": 10_000_000, "n_steps": 128, "n_epochs": 4, "batch_size": 256,
        "learning_rate": "lin 0.00025", "clip_range": "lin 0.1", "vf_coef": 0.5, "ent_coef": 0.01,
    },
    ("ppo", "HalfCheetah-v5"): {
        "n_envs": 1, "normalize": True, "steps": 1_000_000, "n_steps": 512, "batch_size": 64,
        "gamma": 0.98, "gae_lambda": 0.92, "n_epochs": 20, "learning_rate": 2.0633e-05,
        "clip_range": 0.1, "ent_coef": 0.000401762, "vf_coef": 0.58096, "max_grad_norm": 0.8,
        "policy_kwargs": {
            "log_std_init": -2, "ortho_init": False, "activation_fn": torch.nn.ReLU,
            "net_arch": {"pi": [256, 256], "vf": [256, 256]},
        },
    },
    ("a2c", "CartPole-v1"): {"n_envs": 8, "steps": 500_000, "ent_coef": 0.0},
    ("a2c", "LunarLander-v3"): {
        "n_envs": 8, "steps": 200_000, "gamma": 0.995, "n_steps": 5, "ent_coef": 0.00001,
        "learning_rate": "lin 0.00083",
    },
    ("dqn", "CartPole-v1"): {
        "n_envs": 1, "steps": 50_000, "learning_rate": 0.0023, "batch_size": 64,
        "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128,
        "exploration_fraction": 0.16, "exploration_final_eps": 0.04,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
    ("dqn", "LunarLander-v3"): {
        "n_envs": 1, "steps": 100_000, "learning_rate": 0.00063, "batch_size": 128,
        "buffer_size": 50_000, "learning_starts": 0, "gamma": 0.99, "target_update_interval": 250,
        "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1, "policy_kwargs": {"net_arch": [256, 256]},
    },
}  # fmt: skip


class Tell(BaseCallback):
    """Prints progress now and then."""

    def __init__(self):
        super().__init__()
        self._told = {True: 0.0, False: 0.0}  # for ends of rounds, and all else

    def _on_rollout_start(self):
        self._tell(is_round=True)  # it has learned from the one before

    def _on_step(self):
        self._tell()
        return True

    def _tell(self, is_round=False):
        now = time.time()
        if now - self._told[is_round] >= TELL_EVERY_S:
            self._told[is_round] = now
            recent = [episode["r"] for episode in self.model.ep_info_buffer]
            mean = sum(recent) / EPISODES if len(recent) == EPISODES else None
            progress = {"steps": self.num_timesteps, "time": now, "return": mean}
            print("PROGRESS " + json.dumps(progress | {"round": is_round}), flush=True)


def argument(value):
    """A setting, with a schedule in the place of its name."""
    if isinstance(value, str) and value.startswith("lin "):
        start = float(value.removeprefix("lin "))
        return lambda left: start * left
    return value


def environments(level, count, seed, processes):
    kind = SubprocVecEnv if processes else DummyVecEnv
    if "NoFrameskip" in level:
        made = make_atari_env(level, n_envs=count, seed=seed, vec_env_cls=kind)
        return VecFrameStack(made, 4), "CnnPolicy"
    return make_vec_env(level, n_envs=count, seed=seed, vec_env_cls=kind), "MlpPolicy"


def main(work):
    torch.set_num_threads(work["threads"])
    chosen = dict(ZOO[work["algorithm"], work["level"]])
    count, steps = chosen.pop("n_envs"), chosen.pop("steps")
    envs, policy = environments(work["level"], count, work["seed"], work["processes"])
    if chosen.pop("normalize", False):
        envs = VecNormalize(envs, gamma=chosen["gamma"])
    arguments = {name: argument(value) for name, value in chosen.items()}
    model = ALGORITHMS[work["algorithm"]](
        policy, envs, seed=work["seed"], device="cpu", stats_window_size=EPISODES, **arguments
    )
    model.learn(steps, callback=Tell())
    print("trained for all of its steps", flush=True)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
