"""V-trace targets and advantages (Espeholt et al., 2018, https://arxiv.org/abs/1802.01561).

Everything is time-major. Row t of `[T, B]` inputs is the transition from observation t to
observation t + 1: its action, its reward, the discount past it; `values` row t is the value of
observation t, and `bootstrap_value` that of the last observation, T.

The targets need log-probabilities of the actions taken, not the distributions, so
`from_importance_weights` serves every kind of action: continuous ones through their density,
actions of several parts through the sum of their parts' log-probabilities.
"""

from typing import NamedTuple

import tensorflow as tf

from vtrace.checks import (
    as_float32,
    check_at_least_time_and_batch,
    check_scalar,
    check_shape,
    check_shape_of,
    check_steps_of,
)
from vtrace.recursion import decayed_sums

# A weight beyond e^30 is noise. With this limit, the product of two unclipped weights cannot
# overflow float32, and no infinity turns into NaN where the error is zero.
_LARGEST_LOG_RHO = 30.0


class VTraceReturns(NamedTuple):
    """`vs`: targets for the values; `pg_advantages`: for the policy gradient. No gradients."""

    vs: tf.Tensor
    pg_advantages: tf.Tensor


class VTraceFromLogitsReturns(NamedTuple):
    """As `VTraceReturns`, plus the log-probabilities behind them, which carry gradients."""

    vs: tf.Tensor
    pg_advantages: tf.Tensor
    log_rhos: tf.Tensor
    behaviour_action_log_probs: tf.Tensor
    target_action_log_probs: tf.Tensor


def log_probs_from_logits_and_actions(policy_logits, actions) -> tf.Tensor:
    """The log-probability of each action taken.

    Args:
      policy_logits: `[T, B, N]`, unnormalized log-probabilities of N actions.
      actions: `[T, B]`, integers from 0 to N - 1.

    Returns:
      `[T, B]` float32.
    """
    policy_logits, actions = as_float32(policy_logits), tf.convert_to_tensor(actions)
    _check_actions(actions)
    _check_logits("policy_logits", policy_logits, actions)
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(
        logits=policy_logits, labels=tf.cast(actions, tf.int32)
    )


def from_logits(
    behaviour_policy_logits,
    target_policy_logits,
    actions,
    discounts,
    rewards,
    values,
    bootstrap_value,
    clip_rho_threshold=1.0,
    clip_pg_rho_threshold=1.0,
    name="vtrace_from_logits",
    lambda_=1.0,
) -> VTraceFromLogitsReturns:
    """V-trace for one discrete action per step, from the logits of both policies.

    Args:
      behaviour_policy_logits: `[T, B, N]`, of the policy that acted.
      target_policy_logits: `[T, B, N]`, of the policy that is learned.
      actions: `[T, B]`, integers from 0 to N - 1, the actions taken.
      discounts, rewards, values, bootstrap_value, clip_rho_threshold, clip_pg_rho_threshold,
        lambda_: as in `from_importance_weights`, with no trailing dimensions.
      name: of the scope of the operations.
    """
    with tf.name_scope(name):
        behaviour_policy_logits = as_float32(behaviour_policy_logits)
        target_policy_logits = as_float32(target_policy_logits)
        actions, values = tf.convert_to_tensor(actions), as_float32(values)
        _check_actions(actions)
        _check_logits("behaviour_policy_logits", behaviour_policy_logits, actions)
        _check_logits("target_policy_logits", target_policy_logits, actions)
        check_shape_of(
            "target_policy_logits",
            target_policy_logits,
            "behaviour_policy_logits",
            behaviour_policy_logits,
        )
        check_shape_of("values", values, "actions", actions)

        behaviour = log_probs_from_logits_and_actions(behaviour_policy_logits, actions)
        target = log_probs_from_logits_and_actions(target_policy_logits, actions)
        log_rhos = target - behaviour
        returns = from_importance_weights(
            log_rhos,
            discounts,
            rewards,
            values,
            bootstrap_value,
            clip_rho_threshold=clip_rho_threshold,
            clip_pg_rho_threshold=clip_pg_rho_threshold,
            lambda_=lambda_,
        )
        return VTraceFromLogitsReturns(
            vs=returns.vs,
            pg_advantages=returns.pg_advantages,
            log_rhos=log_rhos,
            behaviour_action_log_probs=behaviour,
            target_action_log_probs=target,
        )


def from_importance_weights(
    log_rhos,
    discounts,
    rewards,
    values,
    bootstrap_value,
    clip_rho_threshold=1.0,
    clip_pg_rho_threshold=1.0,
    name="vtrace_from_importance_weights",
    lambda_=1.0,
    clip_c_threshold=1.0,
) -> VTraceReturns:
    """V-trace from the logarithm of the importance weights, for any kind of action.

    `rho[t]` is the probability of action t under the policy that is learned, divided by that
    under the policy that acted. Computed in float32, whatever the inputs are. The weights are
    limited to e^30, even if a threshold is None.

    Args:
      log_rhos: `[T, B, ...]`, target minus behaviour log-probability of the action taken.
      discounts: `[T, B, ...]`, 0 if the transition ended the task.
      rewards: `[T, B, ...]`.
      values: `[T, B, ...]`, of the policy that is learned.
      bootstrap_value: `[B, ...]`, the value after the last transition.
      clip_rho_threshold: upper limit of the weights in the targets; None for no limit.
      clip_pg_rho_threshold: the same in the advantages.
      name: of the scope of the operations.
      lambda_: from 1, all of the trace, to 0, only the one-step error; it acts on the targets'
        trace, and on the advantages only through the targets in them.
      clip_c_threshold: upper limit of the weights in the trace.

    `values` and `bootstrap_value` set the trailing dimensions; a trailing dimension of the
    others may also be 1, and is then broadcast.

    Returns:
      `vs` and `pg_advantages`, both `[T, B, ...]`. No gradient flows through them.
    """
    with tf.name_scope(name):
        log_rhos, discounts, rewards, values, bootstrap_value = _checked_steps(
            log_rhos, discounts, rewards, values, bootstrap_value
        )
        rhos = tf.exp(tf.minimum(log_rhos, _LARGEST_LOG_RHO))
        clipped_rhos = _clip("clip_rho_threshold", rhos, clip_rho_threshold)
        errors = clipped_rhos * _errors(discounts, rewards, values, values, bootstrap_value)
        traces = _scalar("lambda_", lambda_) * _clip("clip_c_threshold", rhos, clip_c_threshold)
        # The target corrects the value by all later one-step errors, each weighted by its own
        # clipped rho, and decayed by discount and trace (clipped c times lambda) of every step
        # between: correction[t] = error[t] + discount[t] * trace[t] * correction[t + 1].
        vs = values + decayed_sums(errors, discounts * traces)
        # The advantage is the reward plus the discounted target of the next observation, minus
        # the value of the observation on which the action was taken.
        clipped_pg_rhos = _clip("clip_pg_rho_threshold", rhos, clip_pg_rho_threshold)
        pg_advantages = clipped_pg_rhos * _errors(discounts, rewards, values, vs, bootstrap_value)
        return VTraceReturns(tf.stop_gradient(vs), tf.stop_gradient(pg_advantages))


def _errors(discounts, rewards, values, expected, bootstrap_value):
    """One-step errors `[T, B, ...]`: what a step promises beyond the value it started from.

    That is its reward plus the discounted `expected` return of the next observation.
    """
    following = tf.concat([expected, bootstrap_value[tf.newaxis]], axis=0)[1:]
    return rewards + discounts * following - values


def _clip(name, rhos, threshold):
    """`rhos`, at most `threshold` unless that is None."""
    if threshold is None:
        return rhos
    return tf.minimum(rhos, _scalar(name, threshold))


def _scalar(name, value):
    value = as_float32(value)
    check_scalar(name, value)
    return value


def _checked_steps(log_rhos, discounts, rewards, values, bootstrap_value):
    """All of them as float32, of shapes that fit one another."""
    log_rhos, discounts = as_float32(log_rhos), as_float32(discounts)
    rewards, values = as_float32(rewards), as_float32(values)
    bootstrap_value = as_float32(bootstrap_value)
    check_at_least_time_and_batch("values", values)
    if values.shape.rank is not None:
        expected = values.shape.as_list()[1:]
        check_shape("bootstrap_value", bootstrap_value, expected, "that of values without time")
    check_steps_of("log_rhos", log_rhos, "values", values)
    check_steps_of("discounts", discounts, "values", values)
    check_steps_of("rewards", rewards, "values", values)
    return log_rhos, discounts, rewards, values, bootstrap_value


def _check_actions(actions):
    if not actions.dtype.is_integer:
        raise ValueError(f"actions must be integers, got {actions.dtype.name}.")
    check_shape("actions", actions, [None, None], "time, batch")


def _check_logits(name, logits, actions):
    steps = [None, None] if actions.shape.rank is None else actions.shape.as_list()
    check_shape(name, logits, [*steps, None], "time and batch of actions, number of actions")
