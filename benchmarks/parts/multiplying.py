"""Counts an agent's multiplications, and the least time that this machine needs for them.

Large products of matrices are the fastest multiplications of a processor. The difference between
that time and the time of inference and learning is the most that better code could gain.
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from algorithms.feeding import InStep
from trainer import build
from trainer.machine import precision
from trainer.settings.config import Settings

SIDE = 1024  # of the matrices


def for_inference(settings: Settings, callers: int) -> list[Callable[[], float]]:
    """Products that say how many steps an agent could have acted for as many multiplications."""
    acting, _ = each(settings)
    return products(settings, callers, acting)


def for_learning(settings: Settings, callers: int) -> list[Callable[[], float]]:
    """The same of learning: an unroll has a row more than steps, and some learn from it often."""
    _, learning = each(settings)
    feeding, batch = settings.algorithm.feeding, settings.learning.batch_size
    times = feeding.epochs if isinstance(feeding, InStep) else batch / feeding.fresh(batch)
    rows = (settings.actors.unroll_length + 1) / settings.actors.unroll_length
    return products(settings, callers, learning * rows * times)


def each(settings: Settings) -> tuple[int, int]:
    """Multiplications with which an agent acts once, and learns from one frame."""
    spec = build.level_spec(settings)
    agent = build.learning_agent(settings, spec)
    seen, chosen = spec.observation_space, spec.action_space
    assert seen.shape is not None and chosen.shape is not None
    observation = tf.zeros([1, 1, *seen.shape], seen.dtype)
    action = tf.zeros([1, 1, *chosen.shape], chosen.dtype)
    first = tf.zeros([1, 1], tf.bool)

    def act() -> Any:
        return agent(observation, tf.zeros([1, 1]), action, first, agent.initial_state(1))[0]

    def learn() -> Any:
        with tf.GradientTape() as tape:
            outputs = [tf.reduce_sum(one) for one in tf.nest.flatten(act())]
            loss = tf.add_n([tf.cast(one, tf.float32) for one in outputs])
        return loss, tape.gradient(loss, agent.trainable_variables)

    return multiplications(act), multiplications(learn)


def products(settings: Settings, callers: int, for_step: float) -> list[Callable[[], float]]:
    """Calls that return how many steps could have been done for their multiplications."""
    dtype = precision.compute_dtype(settings.agent.precision)

    def caller() -> Callable[[], float]:
        one = tf.cast(tf.random.stateless_normal([SIDE, SIDE], (settings.program.seed, 0)), dtype)

        def multiply() -> float:
            tf.matmul(one, one)[0, 0].numpy()
            return SIDE**3 / for_step

        return multiply

    return [caller() for _ in range(callers)]


def multiplications(function: Callable[[], Any]) -> int:
    """The number of them in all convolutions and products that a function's results need."""
    graph = tf.function(function).get_concrete_function().graph
    needed = {output.op for output in graph.outputs}
    waiting = list(needed)
    while waiting:
        above = {one.op for one in waiting.pop().inputs} - needed
        needed |= above
        waiting += above
    return sum(map(_of, needed))


def _of(operation: tf.Operation) -> int:
    shapes = [tuple(one.shape) for one in operation.inputs]
    if operation.type == "MatMul":
        inner = shapes[0][0 if operation.get_attr("transpose_a") else 1]
        return operation.outputs[0].shape.num_elements() * inner
    made = tuple(operation.outputs[0].shape) if operation.outputs else ()
    kernel_and_result = {
        "Conv2D": lambda: (shapes[1], made),
        "Conv2DBackpropInput": lambda: (shapes[1], shapes[2]),
        "Conv2DBackpropFilter": lambda: (made, shapes[2]),
    }
    if operation.type not in kernel_and_result:
        return 0
    kernel, result = kernel_and_result[operation.type]()
    return math.prod(result) * math.prod(kernel[:-1])
