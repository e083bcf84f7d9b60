"""Measures parts of a training in one way of using the cores; prints one line of JSON.

    python -m benchmarks measure_parts --parts=emulation,inference,learning --threads=2

TensorFlow takes its number of threads once a process, so the other benchmarks start this one
again for each way (`benchmarks.tools.ways`).
"""

import dataclasses
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from trainer.machine.quiet import import_tensorflow
from trainer.settings import checks

import_tensorflow()

import tensorflow as tf  # noqa: E402 (quietly, and before what uses it)

from benchmarks.parts import multiplying  # noqa: E402
from benchmarks.parts import part_calls as parts  # noqa: E402
from benchmarks.parts.part_calls import Call  # noqa: E402
from benchmarks.tools import common  # noqa: E402
from benchmarks.tools.common import Options  # noqa: E402
from flags import setting  # noqa: E402
from trainer import build  # noqa: E402
from trainer.machine import precision  # noqa: E402
from trainer.settings import sizes  # noqa: E402
from trainer.settings.config import Settings  # noqa: E402
from user_error import UserError  # noqa: E402

PARTS = (
    "emulation",
    "inference",
    "acting",
    "learning",
    "transport",
    "multiplying for inference",
    "multiplying for learning",
)


@dataclasses.dataclass(frozen=True)
class Own(Options):
    parts: str = setting(",".join(PARTS), "Measuring", "what to measure, separated by commas")
    threads: int = setting(1, "Measuring", "threads of one call", least=1)
    callers: int = setting(1, "Measuring", "calls at the same time", least=1)
    seconds: float = setting(2.0, "Measuring", "for each measurement", above=0)


def calls(part: str, settings: Settings, own: Own) -> list[Call]:
    """What is called again and again to measure a part."""
    kinds: dict[str, Callable[[], list[Call]]] = {
        "emulation": lambda: parts.emulation(settings, own.threads, own.callers),
        "inference": lambda: parts.inference(settings, own.callers),
        "acting": lambda: parts.acting(settings, own.threads, own.callers),
        "learning": lambda: parts.learning(settings, own.threads, own.callers),
        "transport": lambda: parts.transport(settings),
        "multiplying for inference": lambda: multiplying.for_inference(settings, own.callers),
        "multiplying for learning": lambda: multiplying.for_learning(settings, own.callers),
    }
    if part not in kinds:
        raise UserError(f"--parts={part}: no such part; expected some of {', '.join(PARTS)}.")
    return kinds[part]()


def measure(arguments: list[str]) -> None:
    """Prints the agent steps a second of each part."""
    own, settings = common.parse(Own, "measure_parts", __doc__, arguments, trainer=True)
    checks.check(settings)
    spec = build.level_spec(settings)
    settings = build.complete(settings, spec)  # as a training does
    tf.config.threading.set_intra_op_parallelism_threads(own.threads)
    tf.config.threading.set_inter_op_parallelism_threads(max(own.callers, own.threads))
    each = {part: calls(part, settings, own) for part in own.parts.split(",")}
    rates = common.in_turns(
        {part: functools.partial(common.rate, of, own.seconds) for part, of in each.items()},
        own.repeats,
    )
    result: dict[str, Any] = {
        "agent": build.agent_name(settings, spec),
        "precision": precision.compute_dtype(settings.agent.precision).name,
        "gpus": len(tf.config.list_physical_devices("GPU")),
        "environments": sizes.envs_per_actor(settings),
        "batch_steps": sizes.fresh_unrolls(settings) * settings.actors.unroll_length,
        "sizes": {
            "block": parts.block_bytes(settings),
            "weights": parts.weights_bytes(settings),
            "gradient": parts.gradient_bytes(settings),
        },
        "rates": rates,
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    status = common.run("measure_parts", measure)
    sys.stdout.flush()
    # Emulators and threads of TensorFlow are left as they are: nobody waits for their end.
    os._exit(status)
