"""Translates specs in SLM Lab's layout: ``agent``, ``env``, ``body``, ``meta``, ``search``."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from lab.specs.errors import refuse, shown
from lab.specs.search_space import KINDS
from user_error import closest

ALGORITHMS = {
    "Reinforce": "reinforce", "ActorCritic": "a2c", "PPO": "ppo", "VanillaDQN": "dqn",
    "DQN": "dqn", "DoubleDQN": "double_dqn",
}  # fmt: skip
NETWORKS = {
    "MLPNet": "VectorAgent", "ConvNet": "SimpleConvNetAgent", "RecurrentNet": "VectorLSTMAgent",
}  # fmt: skip
SEARCHES = {"RandomSearch": "random", "EvolutionarySearch": "evolutionary", "RaySearch": "random"}
ON_POLICY, VALUES = ("reinforce", "a2c", "ppo"), ("dqn", "double_dqn")
# Where a spec names no number of steps for an episode, and the level has none either.
STEPS_OF_AN_EPISODE = 1000


def _layers(value: Any) -> str:
    return ",".join(str(one) for one in value) if isinstance(value, list) else str(value)


def _optimizer(value: Any) -> str:
    return "rmsprop" if "rms" in str(value).lower() else "adam"


def _schedule(value: Any) -> str:
    return "linear" if value else "constant"


# Path of keys in ``agent`` → the setting, and how its value is translated.
Rule = tuple[str, Callable[[Any], Any]]
SAME: Callable[[Any], Any] = lambda value: value  # noqa: E731
RULES: dict[str, Rule] = {
    "algorithm.gamma": ("discounting", SAME),
    "algorithm.lamda": ("gae_lambda", SAME),
    "algorithm.lam": ("gae_lambda", SAME),
    "algorithm.num_step_returns": ("unroll_length", SAME),
    "algorithm.num_epis_to_collect": ("batch_size", SAME),
    "algorithm.clip_eps": ("clip_ratio", SAME),
    "algorithm.clip_eps_spec.start_val": ("clip_ratio", SAME),
    "algorithm.entropy_weight": ("entropy_cost", SAME),
    "algorithm.entropy_coef": ("entropy_cost", SAME),
    "algorithm.entropy_coef_spec.start_val": ("entropy_cost", SAME),
    "algorithm.val_loss_weight": ("baseline_cost", SAME),
    "algorithm.val_loss_coef": ("baseline_cost", SAME),
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
    "net.clamp_grad_val": ("gradients_clipping", SAME),
    "net.clip_grad_val": ("gradients_clipping", lambda value: 0.0 if value is None else value),
    "net.decay_lr": ("learning_rate_schedule", _schedule),
    "net.lr_scheduler_spec": ("learning_rate_schedule", _schedule),
    "net.update_frequency": ("target_every", SAME),
    "net.polyak_weight": ("target_step", lambda value: round(1 - value, 6)),
    "net.polyak_coef": ("target_step", lambda value: round(1 - value, 6)),
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
# Read together with others below, or the same here without being said.
READ = {
    "name", "algorithm.name", "memory.name", "net.type", "algorithm.training_frequency",
    "algorithm.training_epoch", "algorithm.training_batch_epoch", "algorithm.training_iter",
    "algorithm.training_iters_per_batch", "algorithm.training_batch_iter", "algorithm.use_gae",
    "algorithm.use_GAE", "algorithm.add_entropy", "net.update_type", "net.clamp_grad",
    "algorithm.action_pdtype", "algorithm.minibatch_size", "net.use_same_optim", "net.shared",
    "env.name", "env.max_t", "env.max_timestep", "env.max_frame", "env.max_episode",
    "env.num_envs", "body.num", "meta.max_session", "meta.max_trial", "meta.search",
}  # fmt: skip


def is_one(content: Mapping[str, Any]) -> bool:
    """Whether a spec has SLM Lab's layout."""
    return "env" in content and "agent" in content


def translate(content: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """The same experiment as a spec of this lab, and a line for all that has no counterpart."""
    agent = _only(content, "agent", where)
    env = _only(content, "env", where)
    given = _flat(agent) | {f"env.{key}": value for key, value in env.items()}
    for part in ("body", "meta"):
        given |= {f"{part}.{key}": one for key, one in (content.get(part) or {}).items()}
    name = given.get("algorithm.name")
    if name not in ALGORITHMS:
        expected = f"one of SLM Lab's that there is here. {closest(str(name), ALGORITHMS)}"
        refuse(f"{where}.agent[0].algorithm.name", name, expected)
    algorithm = ALGORITHMS[name]
    settings = _settings(given, algorithm) | _together(given, algorithm)
    meta = _meta(given)
    search = _search(content.get("search") or {}, algorithm, where)
    notes = [
        f"{where}.{_place(path)}: {shown(value)} has no counterpart here and is left out."
        for path, value in given.items()
        if path not in READ and _rule(path, algorithm) is None and value is not None
    ]
    if "env.max_frame" not in given:
        notes.append(
            f"{where}.env[0].max_episode: sessions are as long as that many of the longest "
            f"episodes: {settings['total_environment_frames']:,} frames."
        )
    agent_name = NETWORKS.get(str(given.get("net.type")))
    return {
        "description": str(content.get("description", "")),
        "level": _level(str(given.get("env.name", ""))),
        "algorithm": algorithm,
        **({"agent": agent_name} if agent_name else {}),
        "settings": settings,
        "meta": meta,
        "search": {"settings": search} if search else {},
    }, notes


def _only(content: Mapping[str, Any], part: str, where: str) -> dict[str, Any]:
    """The one agent or environment; several bodies are not translated."""
    listed = content[part] if isinstance(content[part], list) else [content[part]]
    if len(listed) != 1 or not isinstance(listed[0], dict):
        refuse(f"{where}.{part}", listed, f"exactly one {part}")
    return listed[0]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        deeper = isinstance(value, dict) and f"{prefix}{key}" not in RULES
        found |= _flat(value, f"{prefix}{key}.") if deeper else {f"{prefix}{key}": value}
    return found


def _rule(path: str, algorithm: str) -> Rule | None:
    rule = RULES.get(path)
    return rule if rule and algorithm in FOR.get(rule[0], (algorithm,)) else None


def _settings(given: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    settings = {}
    for path, value in given.items():
        rule = _rule(path, algorithm)
        if rule and (value is not None or path.endswith(("lr_scheduler_spec", "clip_grad_val"))):
            settings[rule[0]] = rule[1](value)
    return settings


def _together(given: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    """Settings that several keys decide."""
    settings: dict[str, Any] = {"total_environment_frames": _frames(given)}
    settings["num_actors"] = 1
    settings["envs_per_actor"] = int(given.get("env.num_envs") or given.get("body.num") or 1)
    every = int(given.get("algorithm.training_frequency") or 1)
    times = math.prod(
        int(given.get(f"algorithm.{key}") or 1)
        for key in ("training_epoch", "training_batch_epoch", "training_iter",
                    "training_iters_per_batch", "training_batch_iter")
    )  # fmt: skip
    if algorithm in VALUES:
        settings["updates_per_step"] = times / every
        if "Prioritized" not in str(given.get("memory.name")):
            settings["priority_exponent"] = 0.0
        if given.get("net.update_type") == "replace":
            settings["target_step"] = 0.0
    elif algorithm == "reinforce":
        settings["batch_size"] = every  # episodes
    elif "algorithm.num_step_returns" not in given and "algorithm.training_frequency" in given:
        settings["unroll_length"] = every
        settings["batch_size"] = settings["envs_per_actor"]
    if algorithm == "ppo":
        settings["epochs"] = times
    use_gae = given.get("algorithm.use_gae", given.get("algorithm.use_GAE"))
    if use_gae is False and algorithm in ON_POLICY:
        settings["gae_lambda"] = 1.0
    if given.get("algorithm.add_entropy") is False and algorithm in ON_POLICY:
        settings["entropy_cost"] = 0.0
    if given.get("net.clamp_grad") is False:
        settings["gradients_clipping"] = 0.0
    return settings


def _frames(given: Mapping[str, Any]) -> int:
    if given.get("env.max_frame"):
        return int(given["env.max_frame"])
    steps = given.get("env.max_timestep") or given.get("env.max_t")
    known = gymnasium.registry.get(_level(str(given.get("env.name", ""))))
    steps = steps or (known and known.max_episode_steps) or STEPS_OF_AN_EPISODE
    return int(given.get("env.max_episode") or 1) * int(steps)


def _level(name: str) -> str:
    """The level; of ids that Gymnasium no longer has, the newest version."""
    from environments import names
    from environments.unity.builds import BUILDS

    if name in BUILDS:
        return f"unity:{name}"
    return name if name in gymnasium.registry else (names.newest_version(name) or name)


def _meta(given: Mapping[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    if given.get("meta.max_session"):
        meta["sessions"] = given["meta.max_session"]
    if given.get("meta.max_trial"):
        meta["trials"] = given["meta.max_trial"]
    if given.get("meta.search"):
        meta["search"] = SEARCHES.get(str(given["meta.search"]), "random")
    return meta


def _search(search: Mapping[str, Any], algorithm: str, where: str) -> dict[str, Any]:
    """The searched keys, by the settings that they became."""
    found = {}
    parts = _flat(_only(search, "agent", f"{where}.search")) if search.get("agent") else {}
    for path, values in parts.items():
        key, _, kind = path.partition("__")
        rule = _rule(key, algorithm)
        kind = kind or "grid_search"
        if rule is None or kind not in KINDS:
            refuse(f"{where}.search.{_place(path)}", values, "a key that has a counterpart here")
        numbers = kind in ("uniform", "loguniform", "randint", "normal")
        found[f"{rule[0]}__{kind}"] = values if numbers else [rule[1](one) for one in values]
    return found


def _place(path: str) -> str:
    """The path of keys as the file has it."""
    part, _, rest = path.partition(".")
    if part in ("body", "meta"):
        return path
    return f"env[0].{rest}" if part == "env" else f"agent[0].{path}"
