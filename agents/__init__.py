"""Agents: networks from observations to a policy and a baseline, found by name."""

from agents.agent import Agent, AgentOutput, AgentState, Heads, Torso
from agents.backdrop import Backdrop
from agents.distributions import FORBIDDEN, Distribution, distribution_for
from agents.frame_stack import gather
from agents.network import BodyKind, Network
from agents.registry import default_name, known_agents, make

__all__ = [
    "FORBIDDEN",
    "Agent",
    "AgentOutput",
    "AgentState",
    "Backdrop",
    "BodyKind",
    "Distribution",
    "Heads",
    "Network",
    "Torso",
    "default_name",
    "distribution_for",
    "gather",
    "known_agents",
    "make",
]
