"""Sample Factory's APPO on an Atari game; run by a Python that has it, with its work as JSON.

Where the work is a "rom", each worker steps a batch of environments through envpool, which
preprocesses them in C++ threads; where it is a "level", it learns with the settings that Sample
Factory itself has for Atari games in envpool. Prints how many agent steps were trained on, and the
mean return of the last 100 training episodes, see ``benchmarks.whole.peers.running``.
"""

import functools
import json
import multiprocessing
import sys
import threading
import time

import envpool
import gymnasium
import numpy as np
from sample_factory.algo.learning import learner_worker
from sample_factory.algo.learning.learner import Learner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from sf_examples.envpool.atari import train_envpool_atari

TELL_EVERY_S = 0.5
EPISODES = 100
ENV = "atari"
NETWORKS = {
    "SimpleConvNetAgent": ["--encoder_conv_architecture=convnet_atari", "512"],
    "ResNetAgent": ["--encoder_conv_architecture=resnet_impala", "256"],
}


class Batch(gymnasium.Env):
    """Envpool's environments as Sample Factory takes a batch of them."""

    def __init__(self, game: str, count: int, seed: int, **more: bool):
        made = {"env_type": "gymnasium", "num_envs": count, "seed": seed} | more
        self._pool = envpool.make(f"{game}-v5", **made)
        self.num_agents = count
        self.observation_space = self._pool.observation_space
        self.action_space = self._pool.action_space

    def reset(self, **_):
        observation, info = self._pool.reset()
        return observation, info

    def step(self, actions):
        actions = np.asarray(actions).astype(np.int32)
        observation, reward, terminated, truncated, _ = self._pool.step(actions)
        # Envpool would reset them on the next step; here they have to start in this one.
        ended = np.flatnonzero(terminated | truncated)
        if ended.size:
            observation[ended], _ = self._pool.reset(ended)
        return observation, reward, terminated, truncated, {}

    def close(self):
        self._pool.close()


def make(rom, count, name, cfg=None, env_config=None, render_mode=None):
    return Batch(rom.title().replace("_", ""), count, number(env_config))


def make_published(game, name, cfg=None, env_config=None, render_mode=None):
    """As its own, which wants the older Gym."""
    count = cfg.env_agents
    return Batch(game, count, number(env_config), reward_clip=True, episodic_life=True)


def number(env_config):
    """Another one for each worker's environments."""
    return 1 + (env_config.env_id if env_config else 0)


def flags(work):
    architecture, width = NETWORKS[work["agent_name"]]
    steps = work["unroll_length"] * work["batch_size"]
    return [
        f"--env={ENV}",
        "--experiment=run",
        "--device=cpu",
        f"--seed={work['seed']}",
        architecture,
        f"--encoder_conv_mlp_layers={width}",
        "--nonlinearity=relu",
        "--use_rnn=False",
        "--normalize_input=False",
        "--normalize_returns=False",
        "--obs_scale=255.0",
        # Asynchronous: workers play on while the learner learns.
        "--async_rl=True",
        "--serial_mode=False",
        "--batched_sampling=True",
        f"--num_workers={work['workers']}",
        "--num_envs_per_worker=1",
        "--worker_num_splits=1",
        f"--rollout={work['unroll_length']}",
        f"--recurrence={work['unroll_length']}",
        "--with_vtrace=True",
        f"--batch_size={steps}",
        "--num_batches_per_epoch=1",
        "--num_epochs=1",
        "--env_frameskip=1",
        "--summaries_use_frameskip=False",
        f"--train_for_env_steps={10**12}",
        "--save_every_sec=100000",
    ]


def patch_vtrace():
    """Its learner's summaries expect advantages where V-trace does not store them."""
    record = Learner._record_summaries

    def with_advantages(self, variables):
        variables.mb["advantages"] = variables.adv
        return record(self, variables)

    Learner._record_summaries = with_advantages


def patch_threads(count):
    """Its learner's process would have one thread for PyTorch, and there is no flag for more."""
    start = learner_worker.init_torch_runtime
    learner_worker.init_torch_runtime = functools.partial(start, max_num_threads=count)


def mean_return(runner):
    """Of the last episodes; None before there are enough. Rewards are clipped: Pong's never are."""
    found = runner.policy_avg_stats.get("reward")
    recent = list(found[0])[-EPISODES:] if found else []
    return float(np.mean(recent)) if len(recent) == EPISODES else None


def tell(runner):
    while True:
        progress = {"steps": sum(runner.env_steps.values()), "time": time.time()}
        progress["return"] = mean_return(runner)
        print("PROGRESS " + json.dumps(progress), flush=True)
        time.sleep(TELL_EVERY_S)


def measured(work):
    """What is asked of everybody whose steps a second are compared."""
    register_env(ENV, functools.partial(make, work["rom"], work["envs"]))
    arguments = flags(work)
    parser, _ = parse_sf_args(arguments)
    return parse_full_cfg(parser, arguments)


def published(work):
    """Its own settings for Atari games; only the number of workers is the machine's."""
    game = work["level"].removesuffix("NoFrameskip-v4")
    register_env(ENV, functools.partial(make_published, game))
    return train_envpool_atari.parse_atari_args(
        [
            f"--env={ENV}",
            "--experiment=run",
            "--device=cpu",
            f"--seed={work['seed']}",
            f"--num_workers={work['workers']}",
            "--summaries_use_frameskip=False",  # agent steps
            "--save_every_sec=100000",
        ]
    )


def main(work):
    cfg = published(work) if "level" in work else measured(work)
    cfg, runner = make_runner(cfg)
    runner.init()
    threading.Thread(target=tell, args=(runner,), daemon=True).start()
    return runner.run()


# Its processes import this file again, with the same arguments.
WORK = json.loads(sys.argv[1])
patch_vtrace()
patch_threads(WORK["threads"])

if __name__ == "__main__":
    multiprocessing.freeze_support()
    sys.exit(main(WORK))
