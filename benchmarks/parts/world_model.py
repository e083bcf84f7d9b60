"""Training and dreaming of a world model, beside the bound of its multiplications.

python -m benchmarks world_model
python -m benchmarks world_model --preset=simple_catch --network=stochastic_discrete

learning     updates of the model with windows of noise: a sample is a predicted picture
multiplying  as many multiplications, made by large products of matrices: the fastest that the
             processor can multiply
dreaming     steps of as many dreams as are played side by side
"""

import dataclasses
import functools
import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from trainer.machine.quiet import import_tensorflow

import_tensorflow()

import numpy as np  # noqa: E402 (after TensorFlow was imported quietly)
import tensorflow as tf  # noqa: E402

from benchmarks.parts.multiplying import multiplications, products  # noqa: E402
from benchmarks.tools import common  # noqa: E402
from benchmarks.tools.common import Options, spread  # noqa: E402
from benchmarks.tools.report import Column, Report  # noqa: E402
from flags import setting  # noqa: E402
from trainer import build  # noqa: E402
from trainer.machine import precision  # noqa: E402
from trainer.machine.cores import divide  # noqa: E402
from trainer.settings import config, files, presets  # noqa: E402
from trainer.settings.config import Settings  # noqa: E402
from world_models.networks.loss import Windows, losses  # noqa: E402
from world_models.settings import NETWORKS  # noqa: E402
from world_models.training.estimate import random_windows  # noqa: E402
from world_models.training.policy_settings import check_level, check_program  # noqa: E402
from world_models.training.world_model import WorldModel  # noqa: E402

LEVEL = "KungFuMasterNoFrameskip-v4"
COLUMNS = (
    Column("part", 24),
    Column("samples/s", 24, ",.0f"),
    Column("ms of processor a sample", 26, ".2f"),
    Column("GMAC a sample", 14, ".3f"),
)


@dataclasses.dataclass(frozen=True)
class Own(Options):
    preset: str = setting("simple_cpu", "Measuring", "of --algorithm=simple")
    level_name: str = setting("", "Measuring", f"the level; default: the preset's, or {LEVEL}")
    network: str = setting("deterministic", "Measuring", "the architecture", choices=NETWORKS)
    seconds: float = setting(2.0, "Measuring", "for each measurement", above=0)


class Timed(NamedTuple):
    """What a turn of one part gave."""

    rate: float  # samples a second
    processor_ms: float  # for a sample


def measure(arguments: list[str]) -> None:
    """Prints the table."""
    own, _ = common.parse(Own, "world_model", __doc__, arguments)
    preset = files.load(presets.path_of(own.preset), f"--preset={own.preset}")
    level = own.level_name or str(preset.get("level_name", LEVEL))
    own = dataclasses.replace(own, level_name=level)
    given = [f"--preset={own.preset}", f"--level_name={level}", f"--seed={own.seed}"]
    settings = config.parse([*given, f"--world_model={own.network}"])
    check_program(settings)
    spec = build.level_spec(settings)
    check_level(settings, spec)
    pieces = divide(side_by_side=2)
    model = WorldModel(settings, spec, pieces)
    simple, random = settings.algorithm, np.random.default_rng(own.seed)
    samples = simple.model_batch * simple.target_frames
    windows = random_windows(model, simple.model_batch, simple.target_frames, random)
    macs = {"learning": learning(model, windows) / samples, "dreaming": dreaming(model)}
    calls: dict[str, Sequence[Callable[[], float]]] = {
        "learning": [lambda: _done(model.learn(windows), samples)],
        "multiplying for learning": products(settings, pieces, macs["learning"]),
        "dreaming": [_dreams(model, settings)],
        "multiplying for dreaming": products(settings, pieces, macs["dreaming"]),
    }
    dtype = precision.compute_dtype(settings.agent.precision).name
    found: dict[str, list[Timed]] = {name: [] for name in calls}
    with common.whole_turns(found, functools.partial(write, own, dtype, macs), warm_up=1):
        for _, name in itertools.product(range(1 + own.repeats), calls):
            found[name].append(timed(calls[name], own.seconds))


def timed(calls: Sequence[Callable[[], float]], seconds: float) -> Timed:
    """The calls side by side."""
    began, start = time.process_time(), time.perf_counter()
    rate = common.rate(calls, seconds)
    spent = time.process_time() - began
    return Timed(rate, 1e3 * spent / (rate * (time.perf_counter() - start)))


def write(own: Own, dtype: str, macs: Mapping[str, int], found: dict[str, list[Timed]]) -> None:
    """Prints the table and writes the files."""
    report = Report("world_model", COLUMNS, own, dtype, f"{own.level_name}, {own.preset}")
    for name, turns in found.items():
        part = name.removeprefix("multiplying for ")
        rates, processor = (spread(values) for values in zip(*turns, strict=True))
        report.row(name, rates, processor, macs[part] / 1e9)
    report.finish("samples/s")


def learning(model: WorldModel, windows: Windows) -> int:
    """Multiplications of an update."""
    clip = model.settings.algorithm.model_loss_clip
    constant = Windows(*map(tf.constant, windows))

    def update() -> Any:
        with tf.GradientTape() as tape:
            loss = losses(model.network, constant, clip, 0.5, 0.5).total
        gradients = tape.gradient(loss, model.weights)
        return loss, [one for one in gradients if one is not None]

    return multiplications(update)


def dreaming(model: WorldModel) -> int:
    """Multiplications of a step of one dream."""
    stacks, action, state = _given(model, 1)
    return multiplications(lambda: list(model.network(stacks, action, state)))


def _given(model: WorldModel, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = model.sizes
    shape = [count, sizes.height, sizes.width, sizes.frames * sizes.channels]
    return np.zeros(shape, np.uint8), np.zeros(count, np.int32), model.initial_state(count)


def _dreams(model: WorldModel, settings: Settings) -> Any:
    count = settings.actors.envs_per_actor
    given = _given(model, count)
    return lambda: _done(model.predict(*given), count)


def _done(result: Any, samples: int) -> float:
    return samples


if __name__ == "__main__":
    sys.exit(common.run("world_model", measure))
