"""What a run will cost on this machine, measured before it starts."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from algorithms.feeding import InStep, Replayed
from environments import EnvironmentSpec, EnvironmentStep
from trainer import build
from trainer.acting.playing import Player
from trainer.settings.config import Settings
from trainer.settings.sizes import drawn_together, envs_per_actor
from world_models.networks.loss import Windows
from world_models.schedule import Phase
from world_models.training import playing
from world_models.training.policy_settings import policy_settings
from world_models.training.world_model import WorldModel

UPDATES, STEPS, REAL_ROWS = 3, 5, 20
# Fewer steps of the policy take less time than it does to measure them.
WORTH_MEASURING = 20_000


class Amounts(NamedTuple):
    """How much there is of each kind of work, or how many seconds one of each takes."""

    real: float  # agent steps in the real game, actions chosen
    model: float  # updates of the model
    dreamed: float  # agent steps in the model
    policy: float  # the same steps, each with its action and what is learned from it


NAMES = ("real steps", "updates of the model", "dreamed steps", "steps of the policy")


def left(phases: Sequence[Phase], model: WorldModel, real_steps: int, steps: int) -> Amounts:
    """What is left of these phases; ``steps`` of the policy in the model are done."""
    totals = {phase.kind: phase.total for phase in phases}
    dreamed = max(0, totals.get("policy", 0) - steps)
    return Amounts(
        max(0, totals.get("collect", 0) - real_steps),
        max(0, model.before + totals.get("model", 0) - model.updates),
        dreamed,
        dreamed if dreamed >= WORTH_MEASURING else 0,
    )


def measured(
    settings: Settings, spec: EnvironmentSpec, model: WorldModel, amounts: Amounts
) -> Amounts:
    """Seconds of one of each kind of which there is any; the model stays as it is."""
    return Amounts(
        _of_real(settings, spec) if amounts.real else 0.0,
        _of_model(settings, model) if amounts.model else 0.0,
        _of_dreams(settings, model) if amounts.dreamed else 0.0,
        _of_policy(settings, spec) if amounts.policy else 0.0,
    )


def line(amounts: Amounts, each: Amounts) -> str:
    """The estimate in a line."""
    if not any(amounts):
        return "estimate: nothing is left to compute"
    seconds = [amount * one for amount, one in zip(amounts, each, strict=True)]
    parts = [
        f"{amount:,} {name}: {_hours(part)}"
        for amount, name, part in zip(amounts, NAMES, seconds, strict=True)
        if amount
    ]
    units = [
        f"{one * 1000:,.{0 if one > 0.1 else 2}f} ms for one of the {name}"
        for one, name in zip(each, NAMES, strict=True)
        if one
    ]
    return (
        f"estimate: {', '.join(parts)}; in all about {_hours(sum(seconds))} on this machine as "
        f"busy as it is now ({', '.join(units)})"
    )


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


def _of_real(settings: Settings, spec: EnvironmentSpec) -> float:
    """Playing by chance; a policy's actions take little beside emulation."""
    count = settings.algorithm.real_envs
    choose = playing.at_random(int(spec.action_space.n), 0)  # type: ignore[attr-defined]
    with playing.real_game(settings, count, 0) as game:
        games = playing.Games(game)
        began = time.monotonic()
        part, _ = games.play(choose, REAL_ROWS * count)
        return (time.monotonic() - began) / max(1, part.steps)  # no game may be there


def _of_model(settings: Settings, model: WorldModel) -> float:
    own = settings.algorithm
    windows = random_windows(model, own.model_batch, own.target_frames, np.random.default_rng(0))
    with model.unchanged():
        model.learn(windows)  # makes the graph
        return _seconds(lambda: model.learn(windows), UPDATES)


def _of_dreams(settings: Settings, model: WorldModel) -> float:
    pictures, count = model.sizes, envs_per_actor(policy_settings(settings))
    shape = [count, pictures.height, pictures.width, pictures.frames * pictures.channels]
    stacks, state = np.zeros(shape, np.uint8), model.initial_state(count)
    actions = np.zeros(count, np.int32)
    model.predict(stacks, actions, state)
    return _seconds(lambda: model.predict(stacks, actions, state), STEPS) / count


def _of_policy(settings: Settings, spec: EnvironmentSpec) -> float:
    """An action, and a step's share of the updates."""
    made = build.complete(policy_settings(settings), spec)
    learner = build.learner(made, spec)
    batch = build.random_unrolls(made, spec, learner.agent)
    feeding, count = made.algorithm.feeding, envs_per_actor(made)
    # Of a batch, some may be replayed.
    steps: float = feeding.fresh(made.learning.batch_size) * made.actors.unroll_length
    if isinstance(feeding, Replayed):
        steps = drawn_together(made, learners=1) / feeding.updates_per_step
    elif isinstance(feeding, InStep):
        steps /= feeding.epochs
    learner.update(batch, 1.0)  # makes the graph
    learning = _seconds(lambda: bool(learner.update(batch, 1.0).skipped), UPDATES) / steps
    player = Player(learner.agent, learner.algorithm, greedy=False)
    player.start(count, 1)
    row, actions = _blank_row(spec, count), np.zeros(count, np.int32)
    player.act(row, actions)
    return learning + _seconds(lambda: player.act(row, actions), STEPS) / count


def _blank_row(spec: EnvironmentSpec, count: int) -> EnvironmentStep:
    """What so many games might show: there may not be as many real ones as dreams."""
    seen = spec.observation_space
    return EnvironmentStep(
        np.zeros([count, *seen.shape], seen.dtype),
        np.zeros(count, np.float32),
        np.zeros(count, bool),
        np.ones(count, bool),
    )


def _seconds(call: Callable[[], object], times: int) -> float:
    began = time.monotonic()
    for _ in range(times):
        call()
    return (time.monotonic() - began) / times


def _hours(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:,.1f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 172_800 else f"{seconds / 86_400:,.1f} days"
