"""Translates specs in SLM Lab's layout: ``agent``, ``env``, ``body``, ``meta``, ``search``."""

import functools
import math
from collections.abc import Mapping
from typing import Any

from lab.specs import slm_keys as keys
from lab.specs.errors import refuse, shown
from lab.specs.meta import mapping
from lab.specs.search_space import KINDS, LISTS
from lab.specs.slm_level import frames_of, level_of, limit_of
from user_error import closest


def is_one(content: Mapping[str, Any]) -> bool:
    """Whether a spec has SLM Lab's layout."""
    return "env" in content and "agent" in content


def translate(content: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """The same experiment as a spec of this lab, and a line for all that has no counterpart."""
    agent = _only(content, "agent", where)
    env = _only(content, "env", where)
    given = _flat(agent) | {f"env.{key}": value for key, value in env.items()}
    for part in ("body", "meta"):
        own = mapping(content.get(part), f"{where}.{part}")
        given |= {f"{part}.{key}": one for key, one in own.items()}
    name = given.get("algorithm.name")
    if not isinstance(name, str) or name not in keys.ALGORITHMS:
        expected = f"one of SLM Lab's that there is here. {closest(str(name), keys.ALGORITHMS)}"
        refuse(f"{where}.agent[0].algorithm.name", name, expected)
    algorithm = keys.ALGORITHMS[name]
    for path in keys.NUMBERS:
        number = given.get(path)
        if number is not None and not (isinstance(number, int | float) and math.isfinite(number)):
            refuse(f"{where}.{_place(path)}", number, "a number")
    settings = _settings(given, algorithm) | _together(given, algorithm)
    meta = _meta(given)
    searched = mapping(content.get("search"), f"{where}.search")
    search, left_out = _search(searched, settings, algorithm, where)
    if "minibatches" in settings:
        given.pop("algorithm.minibatch_size")
    left_out = {
        **{_place(path): one for path, one in given.items() if _has_none(path, given, algorithm)},
        **{key: value for key, value in content.items() if key not in keys.PARTS},
        **left_out,
    }
    notes = [
        f"{where}.{place}: {shown(value)} has no counterpart here and is left out."
        for place, value in left_out.items()
    ]
    if not given.get("env.max_frame"):
        notes.append(
            f"{where}.env[0].max_episode: sessions are as long as that many of the longest "
            f"episodes: {settings['total_environment_frames']:,} frames."
        )
    agent_name = keys.NETWORKS.get(str(given.get("net.type")))
    return {
        "description": str(content.get("description", "")),
        "level": level_of(given),
        "algorithm": algorithm,
        **({"agent": agent_name} if agent_name else {}),
        "settings": settings,
        "meta": meta,
        "search": {"settings": search} if search else {},
    }, notes


def _has_none(path: str, given: Mapping[str, Any], algorithm: str) -> bool:
    """Whether a key with its value has no counterpart here."""
    value, own = given[path], path.removeprefix("net.critic_optim_spec.")
    if value is None or path in keys.READ:
        return False
    if path in keys.TIMES:
        return algorithm not in (*keys.VALUES, "ppo") and value != 1
    if path == "algorithm.training_frequency":
        return _counts_otherwise(given, algorithm)
    if path == "env.max_episode":
        return bool(given.get("env.max_frame"))
    if path in keys.LIMITS:
        return bool(value) and not limit_of(given)
    if path == "net.shared" and _has_two_networks(given, algorithm) is not None:
        return False
    if own != path:  # it is used where there are two optimizers
        is_used = not (given.get("net.use_same_optim") or given.get("net.shared"))
        return is_used and value != given.get(f"net.actor_optim_spec.{own}")
    if path in ("algorithm.entropy_coef_spec.start_step", "algorithm.entropy_coef_spec.end_step"):
        whole = 0 if path.endswith("start_step") else given.get("env.max_frame")
        return _entropy_falls(given) and value != whole
    here = _same(given, algorithm)
    if path in here:
        return keys.name_of(value) not in here[path]
    return _rule(path, algorithm) is None


def _same(given: Mapping[str, Any], algorithm: str) -> dict[str, tuple[Any, ...]]:
    """Values that mean what is done here anyway, by their keys."""
    is_of_values = algorithm in keys.VALUES
    greedy = ("default", "epsilon_greedy")
    return keys.HERE | {
        "algorithm.action_policy": greedy if is_of_values else ("default",),
        "net.loss_spec.name": ("SmoothL1Loss",) if is_of_values else ("MSELoss",),
        "net.hid_layers_activation": _activations(given, algorithm),
    }


def _counts_otherwise(given: Mapping[str, Any], algorithm: str) -> bool:
    """Whether ``training_frequency`` counts what is not counted here.

    Memories of batches count steps, others of play that is used once count episodes.
    """
    memory = str(given.get("memory.name"))
    if algorithm == "reinforce":
        return "Batch" in memory
    if algorithm not in keys.ON_POLICY:
        return False
    if steps := _steps(given):
        return steps != given.get("algorithm.training_frequency")
    return memory in keys.OF_EPISODES


def _steps(given: Mapping[str, Any]) -> Any:
    """How many steps returns are of, where a spec says it."""
    return given.get("algorithm.num_step_returns") or given.get("algorithm.time_horizon")


def _entropy_falls(given: Mapping[str, Any]) -> bool:
    return given.get("algorithm.entropy_coef_spec.name") == "linear_decay"


def _has_two_networks(given: Mapping[str, Any], algorithm: str) -> bool | None:
    """Whether the baseline has a network of its own; None where there is no choice."""
    is_possible = given.get("net.type") == "MLPNet" and algorithm in keys.ON_POLICY
    return not given["net.shared"] if is_possible and "net.shared" in given else None


def _activations(given: Mapping[str, Any], algorithm: str) -> tuple[str, ...]:
    """What may follow layers; agents of vectors leave the choice."""
    if given.get("net.type") in keys.OF_VECTORS:
        return keys.ACTIVATIONS
    is_relu = given.get("net.type") == "ConvNet" or algorithm in keys.VALUES
    return ("relu",) if is_relu else ("tanh",)


def _only(content: Mapping[str, Any], part: str, where: str) -> dict[str, Any]:
    """The one agent or environment."""
    listed = content[part] if isinstance(content[part], list) else [content[part]]
    if len(listed) != 1 or not isinstance(listed[0], dict):
        refuse(f"{where}.{part}", listed, keys.INSTEAD[part])
    return listed[0]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        deeper = isinstance(value, dict) and f"{prefix}{key}" not in keys.RULES
        found |= _flat(value, f"{prefix}{key}.") if deeper else {f"{prefix}{key}": value}
    return found


def _rule(path: str, algorithm: str) -> keys.Rule | None:
    rule = keys.RULES.get(path)
    return rule if rule and algorithm in keys.FOR.get(rule[0], (algorithm,)) else None


def _settings(given: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"learning_rate_schedule": "constant"}  # where a spec has none
    for path, value in given.items():
        rule = _rule(path, algorithm)
        if rule and (value is not None or path.endswith("clip_grad_val")):
            settings[rule[0]] = rule[1](value)
    chosen = given.get("net.hid_layers_activation")
    if chosen in keys.ACTIVATIONS and given.get("net.type") in keys.OF_VECTORS:
        settings["activation"] = chosen
    own = _has_two_networks(given, algorithm)
    if own is not None:
        settings["separate_baseline"] = "on" if own else "off"
    return settings


def _together(given: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    """Settings that several keys decide."""
    settings: dict[str, Any] = {"total_environment_frames": frames_of(given), **limit_of(given)}
    settings["num_actors"] = 1
    envs = settings["envs_per_actor"] = int(given.get("env.num_envs") or given.get("body.num") or 1)
    every = int(given.get("algorithm.training_frequency") or 1)
    times = math.prod(int(given.get(key) or 1) for key in keys.TIMES)
    if algorithm in keys.VALUES:
        # There, environments step together, and a step of all is learned from once.
        settings["updates_per_step"] = times / max(every, envs)
        settings["n_steps"] = 1
        if "Prioritized" not in str(given.get("memory.name")):
            settings["priority_exponent"] = 0.0
        if given.get("net.update_type") == "replace":
            settings["target_step"] = 0.0
        if given.get("net.update_frequency"):
            settings["target_every"] = _updates(given["net.update_frequency"], settings)
    elif algorithm == "reinforce":
        if not _counts_otherwise(given, algorithm):
            settings["batch_size"] = every  # episodes
    elif _steps(given):
        settings["batch_size"] = envs
    elif given.get("algorithm.training_frequency") and not _counts_otherwise(given, algorithm):
        settings["unroll_length"], settings["batch_size"] = every, envs
    if algorithm == "ppo":
        settings["epochs"] = times
        size, steps = given.get("algorithm.minibatch_size"), given.get("algorithm.time_horizon")
        if size and steps:
            settings["minibatches"] = max(1, steps * envs // size)
    use_gae = given.get("algorithm.use_gae", given.get("algorithm.use_GAE"))
    if use_gae is False and algorithm in keys.ON_POLICY:
        settings["gae_lambda"] = 1.0
    if given.get("algorithm.add_entropy") is False and algorithm in keys.ON_POLICY:
        settings["entropy_cost"] = 0.0
    elif _entropy_falls(given) and algorithm in keys.ON_POLICY:
        settings["entropy_cost_end"] = given.get("algorithm.entropy_coef_spec.end_val")
    if given.get("net.clamp_grad") is False:
        settings["gradients_clipping"] = 0.0
    return settings


def _meta(given: Mapping[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    if given.get("meta.max_session"):
        meta["sessions"] = given["meta.max_session"]
    if given.get("meta.max_trial"):
        meta["trials"] = given["meta.max_trial"]
    if given.get("meta.search"):
        meta["search"] = keys.SEARCHES.get(str(given["meta.search"]), "random")
    if given.get("meta.search_scheduler"):
        meta["early_stopping"] = "halving"
    return meta


def _updates(steps: Any, settings: Mapping[str, Any]) -> Any:
    """How many updates are made in so many steps."""
    is_number = isinstance(steps, int | float)
    return max(1, round(steps * settings["updates_per_step"])) if is_number else steps


def _search(
    search: Mapping[str, Any], settings: Mapping[str, Any], algorithm: str, where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The searched keys, by the settings that they became; and those that have none."""
    found, left_out = {}, {}
    parts: dict[str, Any] = {}
    for part, own in search.items():
        if "." in part:  # the whole path in one key
            parts[part.removeprefix("agent.")] = own
            continue
        listed = _only(search, part, f"{where}.search") if part in keys.INSTEAD else own
        flat = _flat(mapping(listed, f"{where}.search.{part}"))
        parts |= flat if part == "agent" else {f"{part}.{key}": one for key, one in flat.items()}
    for path, values in parts.items():
        key, _, kind = path.partition("__")
        rule = _rule(key, algorithm)
        kind = kind or "grid_search"
        if kind not in KINDS:
            refuse(f"{where}.search.{_place(path)}", values, f"a kind of {', '.join(KINDS)}")
        if rule is None:
            left_out[f"search.{_place(path)}"] = values
            continue
        if kind in LISTS and not isinstance(values, list):
            refuse(f"{where}.search.{_place(path)}", values, 'a list such as ["a", "b"]')
        if rule[0] == "target_every":
            rule = rule[0], functools.partial(_updates, settings=settings)
        translated = _translated(kind, values, rule) if isinstance(values, list) else values
        if translated is None:
            left_out[f"search.{_place(path)}"] = values
        else:
            found[f"{rule[0]}__{kind}"] = translated
    return found, left_out


def _translated(kind: str, values: list[Any], rule: keys.Rule) -> list[Any] | None:
    """What is searched, as it is here; None where what is drawn would be spread otherwise."""
    translated = [rule[1](one) for one in values]
    if kind in LISTS:
        return translated
    if rule[1] is keys.twice:
        return None if kind == "randint" else translated
    if rule[1] is keys.rest:
        return translated[::-1] if kind == "uniform" else None
    return translated if rule[0] == "target_every" else values


def _place(path: str) -> str:
    """The path of keys as the file has it."""
    part, _, rest = path.partition(".")
    if part in ("body", "meta"):
        return path
    return f"env[0].{rest}" if part == "env" else f"agent[0].{path}"
