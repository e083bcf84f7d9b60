"""V-trace targets and losses: pure functions of time-major `[T, B]` tensors."""

from vtrace.losses import baseline_loss, entropy_loss, policy_gradient_loss
from vtrace.resets import mask_resets
from vtrace.rewards import REWARD_CLIPPINGS, clip_rewards
from vtrace.targets import (
    VTraceFromLogitsReturns,
    VTraceReturns,
    from_importance_weights,
    from_logits,
    log_probs_from_logits_and_actions,
)

__all__ = [
    "REWARD_CLIPPINGS",
    "VTraceFromLogitsReturns",
    "VTraceReturns",
    "baseline_loss",
    "clip_rewards",
    "entropy_loss",
    "from_importance_weights",
    "from_logits",
    "log_probs_from_logits_and_actions",
    "mask_resets",
    "policy_gradient_loss",
]
