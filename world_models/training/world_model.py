"""A world model in training and in use: its network, optimizer and counts."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from environments import EnvironmentSpec
from environments.dream import Dreamt
from trainer.learning.optimizers import Adam
from trainer.learning.settings import LearningSettings
from trainer.machine import precision, provenance
from trainer.machine.graphs import SharedGraph
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Checkpoint, Store
from trainer.storage.folder import writing
from trainer.team.team import Round, Team
from user_error import UserError
from world_models import schedule
from world_models.networks import NextFrame, Sizes, make
from world_models.networks.loss import Losses, Windows, losses
from world_models.networks.next_frame import to_bytes

GRADIENT_NORM = 1.0
KEEP = 2
SIGNS = (-1.0, 0.0, 1.0)  # of rewards
BEFORE = "updates_before"  # among the counters of a checkpoint; earlier versions had none
LAST_RATE = 0.1  # the learning rate of the last update, as a share of the first one's


class Rates(NamedTuple):
    """How far the training is, as the loss needs it; float32."""

    learning_rate: np.float32
    dreamed: np.float32  # how often a step sees a predicted picture
    chance: np.float32  # how often bits are drawn


def action_count(spec: EnvironmentSpec) -> int:
    """How many actions there are to choose from."""
    assert isinstance(spec.action_space, gymnasium.spaces.Discrete)
    return int(spec.action_space.n)


def sizes_of(settings: Settings, spec: EnvironmentSpec) -> Sizes:
    """What the settings say of the network for a level."""
    own = settings.algorithm
    height, width, channels = spec.observation_space.shape or (0, 0, 0)
    stochastic = own.world_model == "stochastic_discrete"
    return Sizes(
        height,
        width,
        channels,
        actions=action_count(spec),
        frames=own.model_frames,
        levels=own.model_levels,
        filters=own.model_filters,
        doublings=own.model_doublings,
        depth=own.model_depth,
        dropout=own.model_dropout,
        noise=own.model_noise,
        state=own.model_state if stochastic else 0,
        bits=own.model_bits if stochastic else 0,
    )


class WorldModel:
    """Learns from windows of real play; predicts steps for a batch of dreams."""

    def __init__(self, settings: Settings, spec: EnvironmentSpec, pieces: int = 1):
        """``pieces`` of a batch are computed side by side, as one operation fills no two cores."""
        self.settings = settings
        self._trained_with = provenance.here()  # now: files may change while it trains
        self._pieces = pieces
        self.sizes = sizes_of(settings, spec)
        own = settings.algorithm
        dtype = precision.compute_dtype(settings.agent.precision)
        self.network: NextFrame = make(own.world_model, self.sizes, settings.program.seed, dtype)
        self.weights = self.network.trainable_variables
        self._optimizer = Adam(self.weights, LearningSettings(epsilon=1e-8))
        self.updates = 0
        self.before = 0  # of these, those of a bundle that its run started with
        self.seen = 0  # steps that it has learned from
        self._learn: SharedGraph | None = None
        self._contribute: SharedGraph | None = None
        self._move: SharedGraph | None = None
        self._predict: dict[int, SharedGraph] = {}

    def learn(self, windows: Windows) -> Losses:
        """One update; returns the parts of the loss as numbers."""
        if self._learn is None:
            self._learn = SharedGraph(self._updated, (windows, self.rates()))
        found = self._learn(windows, self.rates())
        self._count()
        return Losses(*(float(part) for part in found))

    def learn_part(self, windows: Windows, team: Team, stop: bool) -> tuple[Losses, bool]:
        """One update together: ``windows`` are this learner's; whether one of them is to stop."""
        if self._contribute is None:
            self._contribute = SharedGraph(self._contribution, (windows, self.rates()))
        count, found, gradients = self._contribute(windows, self.rates())
        round, sums, gradients = team.add_up(Round(stop=float(stop)), [count, *found], gradients)
        share = 1.0 / max(1.0, float(sums[0]))
        if self._move is None:
            self._move = SharedGraph(self._moved, (gradients, np.float32(1.0), self.rates()))
        self._move(gradients, np.float32(share), self.rates())
        self._count()
        return Losses(*(float(part) * share for part in sums[1:])), bool(round.stop)

    def _count(self) -> None:
        own = self.settings.algorithm
        self.updates += 1
        self.seen += own.model_batch * own.target_frames

    @property
    def variables(self) -> list[tf.Variable]:
        """All that updates change."""
        return [*self.weights, *self._optimizer.slots]

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Undoes the updates of this block."""
        variables, counts = self.variables, (self.updates, self.seen)
        kept = [variable.numpy() for variable in variables]
        try:
            yield
        finally:
            for variable, value in zip(variables, kept, strict=True):
                variable.assign(value)
            self.updates, self.seen = counts

    def rates(self) -> Rates:
        """What depends on the number of updates."""
        own = self.settings.algorithm
        far = min(1.0, self.updates / own.sampling_updates)
        total = schedule.totals(own).get("model", 1)
        done = min(1.0, (self.updates - self.before) / total)
        rate = own.model_learning_rate * (1 - (1 - LAST_RATE) * done)
        return Rates(np.float32(rate), np.float32(far), np.float32(far * own.bits_drawn))

    def _updated(self, windows: Windows, rates: Rates) -> Losses:
        count, sums, gradients = self._contribution(windows, rates)
        share = 1.0 / tf.maximum(count, 1.0)
        with tf.control_dependencies([self._moved(gradients, share, rates)]):
            return Losses(*(part * share for part in sums))

    def _contribution(
        self, windows: Windows, rates: Rates
    ) -> tuple[tf.Tensor, Losses, list[tf.Tensor]]:
        """The number of steps that windows have, the sums of their losses and of the gradients."""
        parts = [self._sums(piece, rates) for piece in self._split(windows)]
        counts, found, gradients = zip(*parts, strict=True)
        return tf.add_n(counts), Losses(*_added(found)), _added(gradients)

    def _moved(
        self, gradients: list[tf.Tensor], share: float | tf.Tensor, rates: Rates
    ) -> tf.Tensor:
        """Moves the weights; of several learners' sum each has this share. Returns the norm."""
        gradients, norm = tf.clip_by_global_norm([one * share for one in gradients], GRADIENT_NORM)
        usable = tf.cast(tf.math.is_finite(norm), tf.float32)
        gradients = [tf.math.multiply_no_nan(one, usable) for one in gradients]
        with tf.control_dependencies(gradients):
            self._optimizer.apply(gradients, rates.learning_rate)
        return norm

    def _sums(self, windows: Windows, rates: Rates) -> tuple[tf.Tensor, Losses, list[tf.Tensor]]:
        count = tf.reduce_sum(windows.valid)
        with tf.GradientTape() as tape:
            clip = self.settings.algorithm.model_loss_clip
            found = losses(self.network, windows, clip, rates.dreamed, rates.chance)
            sums = Losses(*(part * count for part in found))
        unconnected = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(sums.total, self.weights, unconnected_gradients=unconnected)
        return count, sums, gradients

    def _split(self, given: Any) -> list[Any]:
        """Pieces of a nest of tensors [B, ...], of about the same size."""
        count = tf.nest.flatten(given)[0].shape[0]
        ends = [count * n // self._pieces for n in range(self._pieces + 1)]
        return [
            tf.nest.map_structure(lambda one, a=a, b=b: one[a:b], given)
            for a, b in zip(ends, ends[1:], strict=False)
            if a < b
        ]

    def predict(self, stacks: np.ndarray, actions: np.ndarray, state: Any) -> Dreamt:
        """The likeliest next step of each dream; of chance, what its bits say.

        Its reward is the mean of -1, 0 and 1 by their chances: where rewards are rare, the
        likeliest is nearly always 0, and a policy would have nothing to learn from.
        """
        given = (stacks, np.asarray(actions, np.int32), np.asarray(state, np.float32))
        if len(stacks) not in self._predict:
            self._predict[len(stacks)] = SharedGraph(self._predicted, given)
        return Dreamt(*(one.numpy() for one in self._predict[len(stacks)](*given)))

    def _predicted(self, stacks: tf.Tensor, actions: tf.Tensor, state: tf.Tensor) -> Any:
        steps = []
        for piece in self._split((stacks, actions, state)):
            found = self.network(*piece)
            reward = tf.linalg.matvec(tf.nn.softmax(found.reward), SIGNS)
            steps.append(Dreamt(to_bytes(found.frame), reward, found.end > 0, found.state))
        return Dreamt(*(tf.concat(each, 0) for each in zip(*steps, strict=True)))

    def initial_state(self, count: int) -> np.ndarray:
        """What dreams carry before their first step."""
        return self.network.initial_state(count).numpy()

    def save(self, folder: Path, real_steps: int) -> None:
        """Writes a checkpoint, whole or not at all; ``real_steps`` are what it learned from."""
        checkpoint = Checkpoint(
            weights=_numbered(self.weights),
            optimizer=_numbered(self._optimizer.slots),
            algorithm={},
            counters={
                "environment_frames": self.seen,  # they name the file
                "updates": self.updates,
                BEFORE: self.before,
                "real_steps": real_steps,
                "trained_with": self._trained_with,
            },
            settings=self.settings.flat() | {"sizes": dataclasses.asdict(self.sizes)},
        )
        with writing(folder):
            store(folder).save(checkpoint)

    def restore(self, checkpoint: Checkpoint, where: Path) -> None:
        """Takes a checkpoint's weights; an error if it is of another game or size."""
        self._check(checkpoint, where)
        pairs = [(self.weights, checkpoint.weights)]
        if checkpoint.optimizer:  # a bundle has none
            pairs.append((self._optimizer.slots, checkpoint.optimizer))
        for variables, arrays in pairs:
            if [tuple(one.shape) for one in variables] != [one.shape for one in arrays.values()]:
                raise UserError(
                    f"the world model in {where} does not fit the present code. Choose another one."
                )
            for variable, array in zip(variables, arrays.values(), strict=True):
                variable.assign(array)
        self.updates = checkpoint.counters["updates"]
        self.before = checkpoint.counters.get(BEFORE, 0)
        self.seen = checkpoint.counters["environment_frames"]

    def _check(self, checkpoint: Checkpoint, where: Path) -> None:
        before = {name: checkpoint.settings[name] for name in ("level_name", "world_model")}
        now = {name: self.settings.flat()[name] for name in before}
        before |= checkpoint.settings["sizes"]
        now |= dataclasses.asdict(self.sizes)
        changed = [name for name in now if before.get(name) != now[name]]
        if changed:
            given = ", ".join(f"{name} {now[name]}" for name in changed)
            had = ", ".join(f"{name} {before.get(name)}" for name in changed)
            raise UserError(
                f"the world model in {where} is of another game or size: it has {had}, and this "
                f"command asks for {given}. Give the same settings, or choose another --logdir."
            )


def _added(rows: Iterable[Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    """The sum of each column."""
    return [tf.add_n(each) for each in zip(*rows, strict=True)]


def store(folder: Path) -> Store:
    """The checkpoints of a world model."""
    return Store(folder, KEEP)


def newest(folder: Path, warn: Any) -> Checkpoint | None:
    """The newest complete checkpoint of a world model in this folder."""
    found = store(folder).newest(warn)
    return found[1] if found else None


def _numbered(variables: Any) -> dict[str, np.ndarray]:
    return {f"{n:04d}": variable.numpy() for n, variable in enumerate(variables)}
