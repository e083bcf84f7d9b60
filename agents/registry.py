"""Agents by name."""

import importlib
import inspect
from typing import Any

import gymnasium as gym
import tensorflow as tf

from agents.agent import POLICY_AND_VALUE, Agent, Heads
from agents.network import USUAL, Network
from agents.resnet import ResNetAgent, ResNetLSTMAgent
from agents.simple_conv_net import SimpleConvNetAgent
from agents.starter_lstm import StarterLSTMAgent
from agents.vector import VectorAgent, VectorLSTMAgent
from user_error import UserError, closest, in_short

# A level's default is the first that fits it.
AGENTS = (
    SimpleConvNetAgent,
    ResNetAgent,
    ResNetLSTMAgent,
    StarterLSTMAgent,
    VectorAgent,
    VectorLSTMAgent,
)


def known_agents() -> tuple[str, ...]:
    """The names of all agents that come with the trainer."""
    return tuple(agent.__name__ for agent in AGENTS)


def default_name(observation_space: gym.Space) -> str:
    """The name of the agent for such levels where none is given."""
    fitting = _fitting(observation_space)
    if not fitting:
        raise UserError(
            f"no built-in agent accepts the level's observations, {in_short(observation_space)}. "
            "Name one of your own with --agent_name=package.module:Class."
        )
    return fitting[0]


def make(
    agent_name: str,
    observation_space: gym.Space,
    action_space: gym.Space,
    frame_stack: int = 1,
    compute_dtype: tf.DType = tf.float32,
    weights_dtype: tf.DType = tf.float32,
    seed: int | None = None,
    heads: Heads = POLICY_AND_VALUE,
    network: Network = USUAL,
) -> Agent:
    """The agent of that name, with all its variables.

    Args:
        agent_name: a built-in one, in any case; `package.module:Class` for your own;
            empty for the level's default.
        observation_space, action_space, frame_stack, compute_dtype, weights_dtype, seed,
            heads, network: as for `Agent`.
    """
    kind = _find(agent_name or default_name(observation_space))
    if issubclass(kind, Agent) and not kind.fits(observation_space):
        raise UserError(_misfit(kind, observation_space))
    return kind(
        observation_space,
        action_space,
        frame_stack=frame_stack,
        compute_dtype=compute_dtype,
        weights_dtype=weights_dtype,
        seed=seed,
        # A user's agent needs these arguments only if they are not the usual ones.
        **({"heads": heads} if _takes_heads(kind, heads) else {}),
        **({"network": network} if _takes_network(kind, network) else {}),
    )


def _takes_heads(kind: type[Any], heads: Heads) -> bool:
    """Whether to hand over what the algorithm needs; an error if it takes none and has others."""
    if _has_argument(kind, "heads"):
        return heads != POLICY_AND_VALUE
    if heads._replace(separate=POLICY_AND_VALUE.separate) != POLICY_AND_VALUE:  # which is advice
        other = "a value for each action" if heads.action_values else f"{heads.values} values"
        raise UserError(
            f"--agent_name: {kind.__name__} has no argument `heads`, so it gives a policy and one "
            f"value, and this algorithm needs {other}. Give it one like that of agents.Agent, or "
            "train it with --algorithm=impala --nopopart."
        )
    return False


def _takes_network(kind: type[Any], network: Network) -> bool:
    """Whether to hand over the user's choices; an error if there are some and it takes none."""
    if _has_argument(kind, "network"):
        return network != USUAL
    chosen = network._replace(normalise=USUAL.normalise)  # that one is only a default
    if network.kinds:
        raise UserError(
            f"--agent_name: {kind.__name__} has no argument `network`, so it cannot play bodies "
            "that see or do different things. Give levels and bodies that are alike."
        )
    if chosen != USUAL:
        raise UserError(
            f"--agent_name: {kind.__name__} has no argument `network`, so --hidden_sizes, "
            "--activation, --channels, --lstm_size, --separate_baseline, --first_deviation, "
            "--state_deviations and --action_masks cannot change it."
        )
    return False


def _has_argument(kind: type[Any], name: str) -> bool:
    """Whether a class can be made with this keyword."""
    known = inspect.signature(kind).parameters.values()
    return any(one.name == name or one.kind is one.VAR_KEYWORD for one in known)


def _find(agent_name: str) -> type[Any]:
    if ":" in agent_name:
        return _import(agent_name)
    for agent in AGENTS:
        if agent.__name__.lower() == agent_name.lower():
            return agent
    raise UserError(
        f"--agent_name={agent_name} is not known. {closest(agent_name, known_agents())} "
        "Name one of your own as package.module:Class."
    )


def _import(path: str) -> type[Any]:
    module_name, _, class_name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a file of one's own raises
        raise UserError(f"--agent_name={path}: cannot import {module_name!r}: {error}.") from error
    kind = getattr(module, class_name, None)
    if kind is None:
        raise UserError(
            f"--agent_name={path}: {module_name} has no {class_name!r}. "
            f"{closest(class_name, [name for name in vars(module) if name[0] != '_'])}"
        )
    missing = [name for name in ("initial_state", "__call__") if not hasattr(kind, name)]
    if not isinstance(kind, type) or missing:
        raise UserError(
            f"--agent_name={path} is not an agent: it must be a subclass of agents.Agent, or a "
            "class with the same constructor, initial_state, __call__ and distribution."
        )
    return kind


def _fitting(observation_space: gym.Space) -> list[str]:
    return [agent.__name__ for agent in AGENTS if agent.fits(observation_space)]


def _misfit(kind: type[Agent], observation_space: gym.Space) -> str:
    fitting = _fitting(observation_space)
    return (
        f"{kind.__name__} needs {kind.needs}; the level offers {in_short(observation_space)}. "
        + (f"Agents that fit: {', '.join(fitting)}." if fitting else "No built-in agent fits.")
    )
