"""What a run will cost on this machine, measured before it starts."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.settings.config import Settings
from world_models.networks.loss import Windows
from world_models.schedule import Phase
from world_models.training.world_model import WorldModel

UPDATES, STEPS = 3, 5


def measured(settings: Settings, model: WorldModel) -> tuple[float, float]:
    """Seconds of an update of the model, and of a step of all dreams; the model stays as it is."""
    own, sizes = settings.algorithm, model.sizes
    random = np.random.default_rng(0)
    windows = random_windows(model, own.model_batch, own.target_frames, random)
    with model.unchanged():
        model.learn(windows)  # makes the graph
        update = _seconds(lambda: model.learn(windows), UPDATES)
    count = settings.actors.envs_per_actor or 1
    shape = [count, sizes.height, sizes.width, sizes.frames * sizes.channels]
    stacks, state = np.zeros(shape, np.uint8), model.initial_state(count)
    actions = np.zeros(count, np.int32)
    model.predict(stacks, actions, state)
    return update, _seconds(lambda: model.predict(stacks, actions, state), STEPS)


def random_windows(
    model: WorldModel, count: int, length: int, random: np.random.Generator
) -> Windows:
    """Windows of noise, as many and as long as in training."""
    sizes = model.sizes
    shape = [count, sizes.frames + length, sizes.height, sizes.width, sizes.channels]
    return Windows(
        random.integers(0, 256, shape).astype(np.uint8),
        random.integers(0, sizes.actions, [count, length]).astype(np.int32),
        np.zeros([count, length], np.float32),
        np.zeros([count, length], bool),
        np.ones([count, length], np.float32),
    )


def line(settings: Settings, phases: Sequence[Phase], model: WorldModel, steps: int) -> str:
    """The estimate for what is left, in a line; ``steps`` of the policy in the model are done."""
    totals = {phase.kind: phase.total for phase in phases}
    updates = max(0, totals.get("model", 0) - model.updates)
    dreamed = max(0, totals.get("policy", 0) - steps)
    if not updates and not dreamed:
        return "estimate: nothing is left to compute for the model"
    update, step = measured(settings, model)
    count = settings.actors.envs_per_actor or 1
    parts = {"updates of the model": updates * update, "dreamed steps": dreamed * step / count}
    each = [
        f"{amount:,} {name}: {_hours(parts[name])}"
        for name, amount in zip(parts, (updates, dreamed), strict=True)
    ]
    return (
        f"estimate: {', '.join(each)}; at least {_hours(sum(parts.values()))} on this machine as "
        f"busy as it is now, and the policy's own updates ({update * 1000:,.0f} ms an update of "
        f"the model, {step / count * 1000:,.2f} ms a dreamed step)"
    )


def _seconds(call: Any, times: int) -> float:
    began = time.monotonic()
    for _ in range(times):
        call()
    return (time.monotonic() - began) / times


def _hours(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:,.1f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 172_800 else f"{seconds / 86_400:,.1f} days"
