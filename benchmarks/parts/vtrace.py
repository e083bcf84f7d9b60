"""The cost of V-trace and of its backward recursion, as parts of a training step.

  python -m benchmarks vtrace
  python -m benchmarks vtrace --lengths=20 --repeats=50

The doubling recursion of the package is compared with `tf.scan` over the rows, each alone, as a
graph and under XLA. A time is the median of many calls, the overhead of a call included; a
share is that of a training step of 640 frames, whatever the T of the row: a longer unroll of
as many environments makes a longer step, so its true share is smaller still.
"""

import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator

from trainer.machine.quiet import import_tensorflow

import_tensorflow()

import sonnet as snt  # noqa: E402 (quietly, and before what uses it)
import tensorflow as tf  # noqa: E402

import vtrace  # noqa: E402
from benchmarks.tools import common  # noqa: E402
from benchmarks.tools.common import Options, Spread, spread  # noqa: E402
from benchmarks.tools.report import Column, Report  # noqa: E402
from flags import setting  # noqa: E402
from vtrace.recursion import decayed_sums  # noqa: E402

BATCH = 32
COLUMNS = (
    Column("T", 4),
    Column("what", 20),
    Column("mode", 6),
    Column("first call, s", 14, ".2f"),
    Column("later, µs", 22, ".0f"),
    Column("share", 8, ".2%"),
)


@dataclasses.dataclass(frozen=True)
class Own(Options):
    repeats: int = setting(200, "Measuring", "later calls of each", least=1)
    lengths: str = setting("20,100,200", "Measuring", "lengths of an unroll, with commas between")
    frames: int = setting(640, "Measuring", "frames of the training step", least=1)


def timed(call: Callable[[], object], repeats: int) -> tuple[float, Spread]:
    """How long the first call takes, tracing and compiling included, and how long later ones."""
    seconds = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        tf.nest.map_structure(lambda result: result.numpy(), call())
        seconds.append(time.perf_counter() - start)
    return seconds[0], spread(seconds[1:])


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


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "vtrace", __doc__, arguments)
    lengths = common.numbers("lengths", own.lengths)
    tf.random.set_seed(own.seed)
    _, step = timed(training_step(own.frames), max(3, own.repeats // 20))
    what = f"batch {BATCH}; a training step of {own.frames} frames takes {1e3 * step.median:.0f} ms"
    report = Report("vtrace", COLUMNS, own, "float32", what)
    with report.finished("later, µs"):
        for length in lengths:
            for name, function, given in contenders(length):
                for mode in ("graph", "XLA"):
                    compiled = tf.function(function, jit_compile=mode == "XLA", autograph=False)
                    first, later = timed(functools.partial(compiled, *given), own.repeats)
                    microseconds = spread([1e6 * one for one in later.values])
                    share = later.median / step.median
                    report.row(str(length), name, mode, first, microseconds, share)


if __name__ == "__main__":
    sys.exit(common.run("vtrace", measure))
