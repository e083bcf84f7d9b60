"""Agents: of a learner, and of those who play."""

from typing import Any

import tensorflow as tf

import agents
from algorithms.feeding import Gradients
from environments import EnvironmentSpec
from trainer.acting.acting_agent import ActingAgent
from trainer.build.choices import agent_name, algorithm
from trainer.learning.worker import Worker
from trainer.machine import precision
from trainer.machine.gpus import visible_gpus
from trainer.settings.config import Settings

PROCESSOR = "/device:CPU:0"


def learning_agent(settings: Settings, spec: EnvironmentSpec) -> Any:
    """An agent with float32 weights."""
    dtype = precision.compute_dtype(settings.agent.precision)
    return _agent(settings, spec, dtype, tf.float32)


def acting_agent(settings: Settings, spec: EnvironmentSpec, device: str = "") -> Any:
    """An agent that keeps its large weights in the precision in which it computes.

    ``device`` is where; empty: where TensorFlow puts it.
    """
    dtype = precision.compute_dtype(settings.agent.precision, on_processor=device == PROCESSOR)
    # Gradients need all digits.
    computes = isinstance(settings.algorithm.feeding, Gradients)
    with tf.device(device or None):
        return _agent(settings, spec, dtype, tf.float32 if computes else dtype)


def player(settings: Settings, agent: Any, device: str = "") -> ActingAgent:
    """What actors play with, made of ``acting_agent``."""
    feeding = settings.algorithm.feeding
    if not isinstance(feeding, Gradients):
        return ActingAgent(agent, algorithm(settings), device)
    backdrop = backdrop_of(settings, agent)
    return Worker(agent, algorithm(settings), settings.learning, feeding, backdrop, device)


def acting_device(settings: Settings) -> str:
    """Where the actors of a learner's own process compute; empty: where TensorFlow puts it."""
    on_gpu = settings.actors.acting_device == "gpu" or not visible_gpus()
    return "" if on_gpu else PROCESSOR


def backdrop_of(settings: Settings, agent: Any) -> Any:
    """The agent's mean picture, if it has one that is to be updated."""
    # Agents that are not an ``agents.Agent`` may have no backdrop.
    backdrop = getattr(agent, "backdrop", None)
    off = isinstance(backdrop, agents.Backdrop) and not settings.agent.backdrop
    return None if off else backdrop


def _agent(
    settings: Settings, spec: EnvironmentSpec, compute_dtype: tf.DType, weights_dtype: tf.DType
) -> Any:
    return agents.make(
        agent_name(settings, spec),
        spec.observation_space,
        spec.action_space,
        spec.frame_stack,
        compute_dtype=compute_dtype,
        weights_dtype=weights_dtype,
        seed=settings.program.seed,
        heads=algorithm(settings).heads,
        network=agents.Network(
            hidden=settings.agent.hidden,
            channels=settings.agent.channel_counts,
            lstm=settings.agent.lstm_size,
            normalise=settings.agent.normalise_observations,
            separate={"on": True, "off": False}.get(settings.agent.separate_baseline),
            activation=settings.agent.activation.replace("auto", ""),
            deviation=settings.agent.first_deviation,
            state_deviations=settings.agent.state_deviations,
            masked=spec.masked,
            kinds=tuple(agents.BodyKind(*kind) for kind in spec.kinds),
        ),
    )
