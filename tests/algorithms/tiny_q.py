"""A minimal second algorithm: n-step Q-learning with a target network."""

import copy
import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

import vtrace
from agents import AgentOutput, Heads
from algorithms.algorithm import Algorithm, Loss
from algorithms.figures import Figure
from algorithms.settings import AlgorithmSettings
from algorithms.trajectory import Unroll
from flags import setting


@dataclasses.dataclass(frozen=True)
class TinyQSettings(AlgorithmSettings):
    """The settings of ``TinyQ``."""

    implementation: ClassVar[str] = "tests.algorithms.tiny_q:TinyQ"
    figures: ClassVar[tuple[Figure, ...]] = (Figure("squared_error", "squared error", "losses"),)

    discounting: float = setting(0.9, "Learning", "discount of future rewards", least=0, most=1)
    exploration: float = setting(0.3, "Learning", "chance of a random action", least=0, most=1)
    follow: float = setting(0.1, "Learning", "how fast the target network follows", least=0)


class TinyQ(Algorithm):
    """Moves each action's value towards its n-step return, bootstrapped from a target network."""

    heads = Heads(action_values=True, values=0)
    records = ()
    samples = ("error",)

    def act(
        self, agent: Any, output: AgentOutput, seed: tf.Tensor, greedy: bool = False
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        best = tf.argmax(output.policy, axis=-1, output_type=tf.int32)
        if greedy:
            return best, {}
        explores = tf.random.stateless_uniform(tf.shape(best), seed) < self.settings.exploration
        any_action = tf.random.stateless_uniform(
            tf.shape(best), seed + 1, 0, output.policy.shape[-1], tf.int32
        )
        return tf.where(explores, any_action, best), {}

    def start(self, agent: Any) -> None:
        self._agent, self._target = agent, copy.deepcopy(agent)

    @property
    def kept(self) -> dict[str, tf.Variable]:
        return {
            f"target/{index}": variable for index, variable in enumerate(self._target.variables)
        }

    def prepare(self, agent: Any, batch: Unroll) -> tf.Tensor:
        values = tf.reduce_max(_values(self._target, batch), axis=-1)
        is_reset = batch.environment.first[1:]
        continues = 1.0 - tf.cast(batch.environment.terminated[1:], tf.float32)
        rewards, discounts = vtrace.mask_resets(
            batch.environment.reward[1:],
            self.settings.discounting * continues,
            values[:-1],
            is_reset,
        )
        return vtrace.from_importance_weights(
            tf.zeros_like(rewards), discounts, rewards, values[:-1], values[-1]
        ).vs

    def loss(self, agent: Any, batch: Unroll, prepared: tf.Tensor) -> Loss:
        weights = 1.0 - tf.cast(batch.environment.first[1:], tf.float32)
        values = tf.gather(_values(agent, batch)[:-1], batch.action[1:], axis=-1, batch_dims=2)
        error = prepared - values
        loss = tf.math.divide_no_nan(
            tf.reduce_sum(weights * tf.square(error)), tf.reduce_sum(weights)
        )
        return Loss(loss, weights, {"squared_error": loss}, {"error": error}, self.no_sums())

    def after_update(self, sums: tf.Tensor) -> None:
        for mine, theirs in zip(self._target.variables, self._agent.variables, strict=True):
            mine.assign_add(self.settings.follow * (theirs - mine))


def _values(agent: Any, batch: Unroll) -> tf.Tensor:
    """[T + 1, B, A]: the value of each action."""
    step = batch.environment
    return agent(step.observation, step.reward, batch.action, step.first, batch.initial_state)[
        0
    ].policy
