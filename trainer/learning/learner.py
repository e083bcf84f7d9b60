"""The learner: one update of the weights from one batch of unrolls, or from one a learner.

Losses are means over real transitions. Where several learners train together, each adds its
gradient times the number of its transitions, and the sum is divided by their number: so the
update is the one that a single learner would make of all their unrolls. A learner without a
batch adds nothing. In the same way a batch may be made of pieces, each of which adds its share:
nothing in one waits for another, so TensorFlow computes them side by side, and all cores have
work even while a single operation cannot use more of them.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import vtrace
from algorithms.popart import PopArt
from algorithms.trajectory import AgentOutput, Unroll
from trainer.learning import optimizers
from trainer.learning.batches import cut, unrolls_in
from trainer.settings.config import Settings
from trainer.storage.checkpoints import Checkpoint
from trainer.team.team import ALONE, Round, Team


class Statistics(NamedTuple):
    """What one update tells about itself: scalars, and ``[T, B]`` samples for histograms."""

    total_loss: Any
    policy_gradient_loss: Any
    baseline_loss: Any
    entropy: Any
    baseline_spread: Any
    gradient_norm: Any
    importance_weight: Any
    skipped: Any  # 1.0 where loss or gradients were not finite and the update was left out
    baseline: Any
    advantage: Any
    log_importance_weight: Any


SCALARS = Statistics._fields[:7]
HISTOGRAMS = Statistics._fields[8:]
# What the learners' figures are averaged from; the others are of the gradient as a whole.
AVERAGED = ("total_loss", "policy_gradient_loss", "baseline_loss", "entropy") + (
    "baseline_spread",
    "importance_weight",
)


class Share(NamedTuple):
    """What one learner's batch adds to an update; the shares of several learners add up."""

    gradients: list[tf.Tensor]  # times ``count``
    count: tf.Tensor  # real transitions, as a share of those that a batch can have
    figures: tf.Tensor  # [F], those of AVERAGED, times ``count``
    popart: tf.Tensor  # [3, L], see ``PopArt.sums``
    frames: tf.Tensor  # see ``Backdrop.sums``


class Learner:
    """An agent's weights and optimizer; ``update`` moves both by one batch."""

    def __init__(self, agent: Any, settings: Settings, team: Team = ALONE, pieces: int = 1):
        """``pieces`` of a batch are computed side by side on a processor; a GPU takes it whole."""
        self.agent = agent
        self.weights = list(agent.variables)
        self._trained = list(agent.trainable_variables)
        self.optimizer = optimizers.make(settings, self._trained)
        # An agent of other making may do without.
        self._backdrop = getattr(agent, "backdrop", None) if settings.agent.backdrop else None
        self._levels = len(settings.level.levels)
        self._popart = (
            PopArt(agent.baseline_head, self._levels) if settings.algorithm.popart else None
        )
        self.updates = 0
        self.learning_rate = settings.learning.learning_rate
        self._settings = settings
        self._team = team
        self._pieces = pieces
        # On a CPU oneDNN's kernels are faster than what XLA makes of convolutions.
        self.compile(with_xla=bool(tf.config.list_physical_devices("GPU")))

    def compile(self, with_xla: bool) -> None:
        """Makes graphs of the two halves of an update.

        What the team adds up in between cannot be added up within a program of XLA.
        """
        self._with_xla = with_xla
        # Autograph rewrites every function on the way, which takes most of the time of tracing;
        # nothing here needs Python's own conditions and loops over tensors.
        self._differentiate = tf.function(self._share, autograph=False, jit_compile=with_xla)
        self._move = tf.function(self._apply, autograph=False, jit_compile=with_xla)

    def prepare(self, batch: Unroll) -> None:
        """Makes ready for batches of these shapes, whatever is in them; moves nothing."""
        share, _ = self.share(batch)
        self._move.get_concrete_function(share, np.float32(0.0))

    @property
    def slots(self) -> list[tf.Variable]:
        """What a checkpoint keeps besides the weights."""
        return self.optimizer.slots + (self._popart.slots if self._popart else [])

    @property
    def variables(self) -> list[tf.Variable]:
        """All that an update moves."""
        return self.weights + self.slots

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint's weights, optimizer and count of updates."""
        for variables, values in (
            (self.weights, checkpoint.weights),
            (self.slots, checkpoint.optimizer),
        ):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        self.updates = checkpoint.counters["updates"]

    def update(self, batch: Unroll | None, share_left: float) -> Statistics:
        """Trains on ``batch`` and on what the rest of the team has, be it without one of its own.

        ``share_left`` of the run is still to come (learning rate).
        """
        share, samples = self.share(batch)
        _, share = self.add_up(Round(), share)
        return self.move(share, samples, share_left)

    def share(self, batch: Unroll | None) -> tuple[Share, list[tf.Tensor]]:
        """What a batch adds to an update, and samples for histograms; nothing without a batch."""
        if batch is None:
            return self._nothing(), [tf.zeros([0])] * len(HISTOGRAMS)
        return self._differentiate(batch)

    def add_up(self, mine: Round, share: Share) -> tuple[Round, Share]:
        """The sums of what all learners say and of their shares."""
        said, exact, gradients = self._team.add_up(mine, list(share[1:]), share.gradients)
        return said, Share(gradients, *exact)

    def move(self, share: Share, samples: list[tf.Tensor], share_left: float) -> Statistics:
        """Moves the weights by the sum of all shares."""
        self.learning_rate = self._settings.learning.learning_rate * max(0.0, share_left)
        figures, norm, skipped = self._move(share, np.float32(self.learning_rate))
        self.updates += 1
        return Statistics(
            **dict(zip(AVERAGED, figures, strict=True)),
            **dict(zip(HISTOGRAMS, samples, strict=True)),
            gradient_norm=norm,
            skipped=skipped,
        )

    def _share(self, batch: Unroll) -> tuple[Share, list[tf.Tensor]]:
        """The sum of the pieces' shares."""
        count = unrolls_in(batch)
        pieces = 1 if self._with_xla else min(self._pieces, count)
        cuts = [count * piece // pieces for piece in range(pieces + 1)]
        shares, samples = zip(
            *(
                self._share_of(cut(batch, start, stop), (stop - start) / count)
                for start, stop in itertools.pairwise(cuts)
            ),
            strict=True,
        )
        total = tf.nest.map_structure(lambda *each: tf.add_n(each), *shares)
        return total, [tf.concat(each, axis=1) for each in zip(*samples, strict=True)]

    def _share_of(self, piece: Unroll, part: float) -> tuple[Share, list[tf.Tensor]]:
        """What a piece adds that is such a part of its batch."""
        with tf.GradientTape() as tape:
            loss, targets, weights, statistics = self._loss(piece)
            count = part * tf.reduce_mean(weights)
            weighted = loss * count
        share = Share(
            gradients=tape.gradient(weighted, self._trained),
            count=count,
            figures=tf.stack([getattr(statistics, name) for name in AVERAGED]) * count,
            popart=self._popart.sums(targets, piece.level, weights)
            if self._popart
            else tf.zeros([3, self._levels]),
            frames=self._frame_sums(piece.environment.observation),
        )
        return share, [getattr(statistics, name) for name in HISTOGRAMS]

    def _nothing(self) -> Share:
        """The share of a learner that has no batch."""
        return Share(
            gradients=[tf.zeros_like(weight) for weight in self._trained],
            count=tf.zeros([]),
            figures=tf.zeros([len(AVERAGED)]),
            popart=tf.zeros([3, self._levels]),
            frames=self._backdrop.nothing() if self._backdrop else tf.zeros([1]),
        )

    def _frame_sums(self, observation: tf.Tensor) -> tf.Tensor:
        """Of one frame of each unroll, as those that follow it hardly differ."""
        if not self._backdrop:
            return tf.zeros([1])
        return self._backdrop.sums(self.agent.prepare(observation[:1]))

    def _apply(self, share: Share, learning_rate: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor]:
        """Moves the weights; the averaged figures, the gradient's norm and whether it skipped."""
        gradients = [tf.math.divide_no_nan(one, share.count) for one in share.gradients]
        figures = tf.math.divide_no_nan(share.figures, share.count)
        norm = tf.linalg.global_norm(gradients)
        if self._settings.learning.gradients_clipping > 0:
            gradients, _ = tf.clip_by_global_norm(
                gradients, self._settings.learning.gradients_clipping, use_norm=norm
            )
        good = tf.math.is_finite(figures[0]) & tf.math.is_finite(norm)

        def apply() -> tf.Tensor:
            self.optimizer.apply(gradients, learning_rate)
            if self._popart:
                self._popart.update(share.popart)
            if self._backdrop:
                self._backdrop.update(share.frames)
            return tf.constant(True)

        tf.cond(good, apply, lambda: tf.constant(False))
        return tf.unstack(figures), norm, 1.0 - tf.cast(good, tf.float32)

    def _baseline(self, output: AgentOutput, level: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[T + 1, B]: what the baseline head says of each unroll's level, and as values."""
        said = output.baseline
        if said.shape.rank == 3:
            said = tf.reduce_sum(said * tf.one_hot(level, said.shape[-1]), axis=-1)
        return said, self._popart.values(said, level) if self._popart else said

    def _loss(self, batch: Unroll) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, Statistics]:
        """The weighted sum of the three losses, each a mean over real transitions.

        Also the baseline's targets and the weight of each transition (0 for resets), [T, B].
        """
        settings, step, distribution = self._settings, batch.environment, self.agent.distribution
        output, _ = self.agent(
            step.observation, step.reward, batch.action, step.first, batch.initial_state
        )
        said, values = self._baseline(output, batch.level)
        policy, baseline = output.policy[:-1], values[:-1]
        log_prob = distribution.log_prob(policy, batch.action[1:])
        log_rhos = log_prob - batch.action_log_prob[1:]
        is_reset = step.first[1:]
        discounts = settings.algorithm.discounting * (
            1.0 - tf.cast(step.terminated[1:], tf.float32)
        )
        rewards = vtrace.clip_rewards(step.reward[1:], settings.algorithm.reward_clipping)
        rewards, discounts = vtrace.mask_resets(rewards, discounts, baseline, is_reset)
        weighed = log_rhos if settings.algorithm.correction == "vtrace" else tf.zeros_like(log_rhos)
        returns = vtrace.from_importance_weights(
            weighed,
            discounts,
            rewards,
            baseline,
            values[-1],
            lambda_=settings.algorithm.vtrace_lambda,
        )
        targets, advantages = returns
        if self._popart:
            targets = self._popart.normalise(targets, batch.level)
            advantages /= self._popart.spread(batch.level)
        weights = 1.0 - tf.cast(is_reset, tf.float32)
        policy_loss = vtrace.policy_gradient_loss(log_prob, advantages, weights)
        baseline_loss = vtrace.baseline_loss(said[:-1], targets, weights)
        entropy = -vtrace.entropy_loss(distribution.entropy(policy), weights)
        total = (
            policy_loss
            + settings.algorithm.baseline_cost * baseline_loss
            - settings.algorithm.entropy_cost * entropy
        )
        statistics = Statistics(
            total_loss=total,
            policy_gradient_loss=policy_loss,
            baseline_loss=baseline_loss,
            entropy=entropy,
            baseline_spread=tf.math.reduce_std(baseline),
            gradient_norm=None,
            importance_weight=tf.reduce_mean(tf.exp(tf.minimum(log_rhos, 10.0))),
            skipped=None,
            baseline=baseline,
            advantage=advantages,
            log_importance_weight=log_rhos,
        )
        return total, returns.vs, weights, statistics
