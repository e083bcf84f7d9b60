"""What V-trace costs, and its backward recursion, beside the training step that they are part of.

    python -m benchmarks.vtrace

The doubling recursion of the package stands against `tf.scan` over the rows, each alone, as a
graph and under XLA. A time is the median of many calls, the overhead of a call included; a
share is that of a training step of 640 frames, whatever the T of the row: a longer unroll of
as many environments makes a longer step, so its true share is smaller still.
"""

import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import sonnet as snt
import tensorflow as tf

import vtrace
from vtrace.recursion import decayed_sums

BATCH = 32
LENGTHS = (20, 100, 200)


def median_seconds(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """How long the first call takes, tracing and compiling included, and how long later ones."""
    seconds = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        tf.nest.map_structure(lambda result: result.numpy(), call())
        seconds.append(time.perf_counter() - start)
    return seconds[0], statistics.median(seconds[1:])


def training_step(frames: int) -> Callable[[], tf.Tensor]:
    """Forward and backward of a small convolutional network with a policy and a baseline."""
    network = snt.Sequential(
        [
            lambda pixels: tf.cast(pixels, tf.float32) / 255.0,
            snt.Conv2D(32, 8, 4, padding="VALID"),
            tf.nn.relu,
            snt.Conv2D(64, 4, 2, padding="VALID"),
            tf.nn.relu,
            snt.Conv2D(64, 3, 1, padding="VALID"),
            tf.nn.relu,
            snt.Flatten(),
            snt.Linear(512),
            tf.nn.relu,
            snt.Linear(6 + 1),
        ]
    )
    pixels = tf.cast(tf.random.uniform([frames, 84, 84, 4], maxval=256, dtype=tf.int32), tf.uint8)
    network(pixels[:1])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(network(pixels)))
        gradients = tape.gradient(loss, network.trainable_variables)
        return tf.linalg.global_norm(gradients)

    return step


def scanned_sums(terms: tf.Tensor, decays: tf.Tensor) -> tf.Tensor:
    """The recursion row by row, `[T, B]`: what the package's has to beat."""
    return tf.scan(
        lambda later, row: row[0] + row[1] * later,
        (terms, decays),
        initializer=tf.zeros_like(terms[0]),
        reverse=True,
    )


def contenders(length: int) -> Iterator[tuple[str, Callable, list[tf.Tensor]]]:
    """What is measured at this T: its name, its function and the arguments."""
    rows = tf.random.stateless_normal([4, length, BATCH], seed=[0, 0])
    terms, decays = rows[0], 0.99 * tf.minimum(1.0, tf.exp(rows[1]))
    yield "recursion, doubling", decayed_sums, [terms, decays]
    yield "recursion, tf.scan", scanned_sums, [terms, decays]
    discounts = tf.fill([length, BATCH], 0.99)
    arguments = [rows[0], discounts, rows[1], rows[2], rows[3, 0]]
    yield "V-trace, all of it", vtrace.from_importance_weights, arguments


def main(lengths: tuple[int, ...] = LENGTHS, frames: int = 640, repeats: int = 200) -> None:
    """Prints the table."""
    _, step = median_seconds(training_step(frames), max(3, repeats // 20))
    print(f"training step of {frames} frames, float32, no XLA: {1e3 * step:.0f} ms")
    print(f"batch {BATCH}, {len(os.sched_getaffinity(0))} cores\n")
    print(f"{'T':>4}  {'what':<20}{'mode':<6}{'first call, s':>14}{'later, µs':>11}{'share':>9}")
    for length in lengths:
        for what, function, arguments in contenders(length):
            for mode in ("graph", "XLA"):
                compiled = tf.function(function, jit_compile=mode == "XLA", autograph=False)
                first, later = median_seconds(functools.partial(compiled, *arguments), repeats)
                print(
                    f"{length:>4}  {what:<20}{mode:<6}{first:>14.2f}{1e6 * later:>11.0f}"
                    f"{later / step:>9.2%}"
                )


if __name__ == "__main__":
    main()
