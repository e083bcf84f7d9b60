"""DQN: each action's value, learned towards targets of a network that follows slowly."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import vtrace
from agents import FORBIDDEN, AgentOutput, Heads
from algorithms import losses
from algorithms.algorithm import Algorithm, Loss
from algorithms.feeding import ERROR, IMPORTANCE
from algorithms.trajectory import Unroll


class DQN(Algorithm):
    """Q-learning with n-step targets, Double DQN and dueling heads as options."""

    records = ()
    samples = (ERROR,)
    copies = "target/"
    explores = True

    def __init__(self, settings: Any, levels: int):
        super().__init__(settings, levels)
        self.heads = Heads(action_values=True, values=int(settings.dueling))

    def act(
        self,
        agent: Any,
        output: AgentOutput,
        seed: tf.Tensor,
        greedy: bool = False,
        chance: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """The best actions, or with a ``chance`` [B] any that are allowed.

        Without one, as in tests, it is that of the environment that explores least.
        """
        values = output.policy
        best = tf.argmax(values, axis=-1, output_type=tf.int32)
        if greedy:
            return best, {}
        if chance is None:
            chance = self.settings.exploration_end ** (1.0 + self.settings.exploration_ladder)
        draws = tf.random.stateless_uniform([tf.shape(values)[0], values.shape[-1] + 1], seed)
        allowed = tf.where(values > FORBIDDEN / 2, draws[:, 1:], -1.0)
        anything = tf.argmax(allowed, axis=-1, output_type=tf.int32)
        return tf.where(draws[:, 0] < chance, anything, best), {}

    def shown(self, output: AgentOutput) -> AgentOutput:
        """With the values of actions, and the best one's as the row's."""
        values = self._action_values(output)
        return AgentOutput(values, tf.reduce_max(values, axis=-1))

    def exploration(self, updates: int, places: np.ndarray) -> np.ndarray:
        """Falls with the updates; on a ladder, environments explore to different degrees."""
        settings = self.settings
        steps = updates / settings.updates_per_step + settings.replay_warm_up * (updates > 0)
        left = max(0.0, 1.0 - steps / settings.exploration_steps)
        start, end = settings.exploration_start, settings.exploration_end
        chance = end + (start - end) * left
        return np.float32(chance) ** (1.0 + settings.exploration_ladder * places)

    def start(self, agent: Any) -> None:
        """Makes the target network."""
        self._agent, self._target = agent, copy.deepcopy(agent)
        self._updates = tf.Variable(0, dtype=tf.int64, trainable=False)

    @property
    def kept(self) -> dict[str, tf.Variable]:
        """The target network, and the count of updates by which it is copied."""
        target = {f"{self.copies}{index}": one for index, one in enumerate(self._target.variables)}
        return target | {"target_updates": self._updates}

    def take_over(self, kept: Mapping[str, np.ndarray]) -> None:
        """Starts with a copy of the network as its target, and a count from 0."""
        for mine, theirs in self._pairs():
            mine.assign(theirs)

    def _pairs(self) -> list[tuple[tf.Variable, tf.Variable]]:
        """The variables of the target network, each with the agent's."""
        return list(zip(self._target.variables, self._agent.variables, strict=True))

    def prepare(self, agent: Any, batch: Unroll) -> tf.Tensor:
        """[L, B]: n-step targets of the transitions that are learned from."""
        settings = self.settings
        steps, theirs = self._values(self._target, batch)
        if settings.double:
            chosen = tf.argmax(self._values(agent, batch)[1], axis=-1)
            values = tf.gather(theirs, chosen, axis=-1, batch_dims=2)
        else:
            values = tf.reduce_max(theirs, axis=-1)
        discounts = settings.discounting * (
            1.0 - tf.cast(steps.environment.terminated[1:], tf.float32)
        )
        rewards = vtrace.clip_rewards(steps.environment.reward[1:], settings.reward_clipping)
        rewards, discounts = vtrace.mask_resets(
            rewards, discounts, values[:-1], steps.environment.first[1:]
        )
        count = values.shape[0] - settings.n_steps
        targets = values[settings.n_steps :]
        for ahead in reversed(range(settings.n_steps)):
            one = slice(ahead, ahead + count)
            targets = rewards[one] + discounts[one] * targets
        return targets

    def loss(self, agent: Any, batch: Unroll, prepared: tf.Tensor) -> Loss:
        """The mean Huber loss, of each window by its importance."""
        count = prepared.shape[0]
        steps, values = self._values(agent, batch)
        weights = 1.0 - tf.cast(steps.environment.first[1 : count + 1], tf.float32)
        taken = tf.gather(values[:count], steps.action[1 : count + 1], axis=-1, batch_dims=2)
        error = prepared - taken
        size = tf.abs(error)
        huber = tf.where(size < 1.0, 0.5 * tf.square(error), size - 0.5)
        importance = steps.recorded[IMPORTANCE][:count]
        return Loss(
            total=losses.mean(importance * huber, weights),
            weights=weights,
            figures={
                "mean_value": losses.mean(taken, weights),
                "error": losses.mean(size, weights),
            },
            samples={ERROR: size * weights},
            sums=self.no_sums(),
        )

    def after_update(self, sums: tf.Tensor) -> None:
        """Moves the target network."""
        step, every = self.settings.target_step, self.settings.target_every
        self._updates.assign_add(1)
        pairs = self._pairs()

        def copy_all() -> tf.Tensor:
            for mine, theirs in pairs:
                mine.assign(theirs)
            return tf.constant(True)

        if step:
            for mine, theirs in pairs:
                mine.assign_add(step * (theirs - mine))
        else:
            due = tf.equal(self._updates % every, 0)
            tf.cond(due, copy_all, lambda: tf.constant(False))

    def _values(self, agent: Any, batch: Unroll) -> tuple[Unroll, tf.Tensor]:
        """The rows that are learned from, and the value of each action on them, [rows, B, A]."""
        state, rows = batch.initial_state, batch
        stacked = 0 if isinstance(state.frames, tuple) else state.frames.shape[1]
        if stacked:
            early = _cut(batch, 0, stacked).environment
            before = agent.states(early.observation, early.reward, early.first, state, [stacked])
            state, rows = state._replace(frames=before.frames), _cut(batch, stacked, None)
        if self.settings.burn_in and agent.is_recurrent:
            _, state = _call(agent, _cut(rows, 0, self.settings.burn_in), state)
            state = tf.nest.map_structure(tf.stop_gradient, state)
            rows = _cut(rows, self.settings.burn_in, None)
        output, _ = _call(agent, rows, state)
        return rows, self._action_values(output)

    def _action_values(self, output: AgentOutput) -> tf.Tensor:
        """[..., A], those of actions that a mask excludes far below all others."""
        values = output.policy
        if not self.settings.dueling:
            return values
        allowed = tf.cast(values > FORBIDDEN / 2, tf.float32)
        mean = tf.math.divide_no_nan(
            tf.reduce_sum(allowed * values, -1), tf.reduce_sum(allowed, -1)
        )
        return values + (output.baseline - mean)[..., tf.newaxis]


def _call(agent: Any, rows: Unroll, state: Any) -> Any:
    step = rows.environment
    return agent(step.observation, step.reward, rows.action, step.first, state)


def _cut(batch: Unroll, start: int, stop: int | None) -> Unroll:
    """Rows of an unroll; its other fields stay."""

    def of(nest: Any) -> Any:
        return tf.nest.map_structure(lambda array: array[start:stop], nest)

    return batch._replace(
        environment=of(batch.environment), action=of(batch.action), recorded=of(batch.recorded)
    )
