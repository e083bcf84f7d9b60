"""The keys of SLM Lab's specs: which settings they are here, and which values are the same here."""

from collections.abc import Callable
from typing import Any

ALGORITHMS = {
    "Reinforce": "reinforce", "ActorCritic": "a2c", "PPO": "ppo", "VanillaDQN": "dqn",
    "DQN": "dqn", "DoubleDQN": "double_dqn",
}  # fmt: skip
NETWORKS = {
    "MLPNet": "VectorAgent", "ConvNet": "SimpleConvNetAgent", "RecurrentNet": "VectorLSTMAgent",
}  # fmt: skip
OF_VECTORS, ACTIVATIONS = ("MLPNet", "RecurrentNet"), ("tanh", "relu")
OF_EPISODES = ("OnPolicyReplay", "OnPolicySeqReplay")  # where batches are counted in episodes
SEARCHES = {"RandomSearch": "random", "EvolutionarySearch": "evolutionary", "RaySearch": "random"}
LINEAR = ("LinearToZero", "linear_decay", True)
OPTIMIZERS = ("adam", "rmsprop", "sgd")
ON_POLICY, VALUES = ("reinforce", "a2c", "ppo"), ("dqn", "double_dqn")


def _layers(value: Any) -> str:
    return ",".join(str(one) for one in value) if isinstance(value, list) else str(value)


def _optimizer(value: Any) -> str:
    return str(value).lower() if str(value).lower() in OPTIMIZERS else "adam"


def _schedule(value: Any) -> str:
    return "linear" if name_of(value) in LINEAR else "constant"


def twice(value: Any) -> Any:
    """Of a weight of the values' squared error, which is halved here."""
    return 2 * value if isinstance(value, int | float) else value


def rest(value: Any) -> Any:
    """Of the share of a target network that stays."""
    return round(1 - value, 6) if isinstance(value, int | float) else value


def name_of(value: Any) -> Any:
    """What stands for a part that may have keys of its own."""
    return value.get("name") if isinstance(value, dict) else value


# Path of keys in ``agent`` → the setting, and how its value is translated.
Rule = tuple[str, Callable[[Any], Any]]
SAME: Callable[[Any], Any] = lambda value: value  # noqa: E731
RULES: dict[str, Rule] = {
    "algorithm.gamma": ("discounting", SAME),
    "algorithm.lamda": ("gae_lambda", SAME),
    "algorithm.lam": ("gae_lambda", SAME),
    "algorithm.num_step_returns": ("unroll_length", SAME),
    "algorithm.time_horizon": ("unroll_length", SAME),
    "algorithm.num_epis_to_collect": ("batch_size", SAME),
    "algorithm.clip_eps": ("clip_ratio", SAME),
    "algorithm.clip_eps_spec.start_val": ("clip_ratio", SAME),
    "algorithm.entropy_weight": ("entropy_cost", SAME),
    "algorithm.entropy_coef": ("entropy_cost", SAME),
    "algorithm.entropy_coef_spec.start_val": ("entropy_cost", SAME),
    "algorithm.val_loss_weight": ("baseline_cost", twice),
    "algorithm.val_loss_coef": ("baseline_cost", twice),
    "algorithm.explore_var_start": ("exploration_start", SAME),
    "algorithm.explore_var_end": ("exploration_end", SAME),
    "algorithm.explore_var_spec.start_val": ("exploration_start", SAME),
    "algorithm.explore_var_spec.end_val": ("exploration_end", SAME),
    "algorithm.explore_var_spec.end_step": ("exploration_steps", SAME),
    "algorithm.training_min_timestep": ("replay_warm_up", SAME),
    "algorithm.training_start_step": ("replay_warm_up", SAME),
    "memory.max_size": ("replay_steps", SAME),
    "memory.alpha": ("priority_exponent", SAME),
    "memory.batch_size": ("batch_size", SAME),
    "net.batch_size": ("batch_size", SAME),
    "net.hid_layers": ("hidden_sizes", _layers),
    "net.optim.name": ("optimizer", _optimizer),
    "net.optim.lr": ("learning_rate", SAME),
    "net.optim_spec.name": ("optimizer", _optimizer),
    "net.optim_spec.lr": ("learning_rate", SAME),
    "net.actor_optim_spec.name": ("optimizer", _optimizer),
    "net.actor_optim_spec.lr": ("learning_rate", SAME),
    "net.actor_optim_spec.alpha": ("decay", SAME),
    "net.optim_spec.alpha": ("decay", SAME),
    "net.clamp_grad_val": ("gradients_clipping", SAME),
    "net.clip_grad_val": ("gradients_clipping", lambda value: 0.0 if value is None else value),
    "net.decay_lr": ("learning_rate_schedule", _schedule),
    "net.lr_scheduler_spec": ("learning_rate_schedule", _schedule),
    "net.update_frequency": ("target_every", SAME),
    "net.polyak_weight": ("target_step", rest),
    "net.polyak_coef": ("target_step", rest),
}
# Settings that only some algorithms have; elsewhere such a key has no counterpart.
FOR: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gae_lambda", "entropy_cost", "baseline_cost"), ON_POLICY),
    "clip_ratio": ("ppo",),
    **dict.fromkeys(
        ("exploration_start", "exploration_end", "exploration_steps", "replay_warm_up",
         "replay_steps", "priority_exponent", "target_every", "target_step"),
        VALUES,
    ),
}  # fmt: skip
# Read together with others below. With one agent in one environment all products are the same.
READ = {
    *("name", "algorithm.name", "algorithm.use_gae", "algorithm.use_GAE", "algorithm.add_entropy"),
    *("net.clamp_grad", "env.name", "env.max_frame", "env.num_envs", "body.num", "body.product"),
    *("meta.max_session", "meta.max_trial", "meta.search_scheduler"),
    # Whether a schedule has a counterpart is said with its name.
    *(f"algorithm.clip_eps_spec.{key}" for key in ("end_val", "start_step", "end_step")),
    "algorithm.entropy_coef_spec.end_val",
}  # fmt: skip
# How long an episode may be, where a level has such a limit here.
LIMITS = ("env.max_timestep", "env.max_t")
# Multiplied with one another, they are the times that a batch is learned from.
TIMES = (
    *("algorithm.training_epoch", "algorithm.training_batch_epoch", "algorithm.training_iter"),
    *("algorithm.training_iters_per_batch", "algorithm.training_batch_iter"),
)
# Computed with here, before the values of settings are checked.
NUMBERS = (
    *TIMES,
    *("algorithm.training_frequency", "algorithm.time_horizon", "algorithm.minibatch_size"),
    *(*LIMITS, "env.num_envs", "env.max_frame", "env.max_episode", "body.num"),
    *("net.polyak_weight", "net.polyak_coef", "net.update_frequency"),
)
# Values that mean what is done here anyway; others of these keys have no counterpart.
HERE: dict[str, tuple[Any, ...]] = {
    "algorithm.action_pdtype": ("default", "Argmax", "Categorical", "Normal"),
    "algorithm.explore_var_spec.name": ("linear_decay",),
    "algorithm.explore_var_spec.start_step": (0,),
    "algorithm.clip_eps_spec.name": ("no_decay",),
    "algorithm.entropy_coef_spec.name": ("no_decay", "linear_decay"),
    "memory.name": ("OnPolicyReplay", "OnPolicyBatchReplay", "Replay", "PrioritizedReplay"),
    "algorithm.clip_val_loss": (False,),
    "memory.use_cer": (False,),
    "net.type": tuple(NETWORKS),
    "net.shared": (True,),
    "net.use_same_optim": (True,),
    "net.gpu": (False, "auto"),
    "net.batch_norm": (False,),
    "net.update_type": ("replace", "polyak"),
    **dict.fromkeys(
        ("net.optim.name", "net.optim_spec.name", "net.actor_optim_spec.name"),
        ("Adam", "RMSprop", "SGD"),
    ),
    "net.decay_lr": ("no_decay", False, *LINEAR),
    "net.lr_scheduler_spec": LINEAR,
    "meta.search": tuple(SEARCHES),
    "meta.distributed": (False,),
    "meta.train_mode": (True,),
}
PARTS = ("agent", "env", "body", "meta", "search", "description", "name")
# What there is of several agents and environments.
INSTEAD = {
    "agent": "one agent: it can play all bodies of a game, such as those of PettingZoo",
    "env": "one env: one agent learns several levels by a spec of this lab, with levels: [A, B]",
}
