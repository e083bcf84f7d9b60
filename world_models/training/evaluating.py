"""How well a model predicts: whether reward sums are right, and how far pictures drift."""

from typing import Any, NamedTuple

import numpy as np

from environments.dream import Dreamt
from world_models.training.experience import Experience
from world_models.training.world_model import WorldModel

AT = (12, 50)  # steps after which sums of rewards are compared
ROLLOUTS = 128
SAME = 8  # of 255: pixels that differ by no more look the same


class Rollouts(NamedTuple):
    """Real play, and what the model made of the same actions; [B, K, ...], [B] what they were."""

    predicted: np.ndarray  # uint8 [B, K, H, W, C]
    real: np.ndarray
    rewards: np.ndarray  # predicted, as whole numbers [B, K]
    real_rewards: np.ndarray  # the signs of the true ones
    ends: np.ndarray  # bool [B, K], predicted
    real_ends: np.ndarray
    valid: np.ndarray  # bool [B, K], the real episode was not over before


def rollouts(model: WorldModel, real: Experience, targets: np.ndarray, length: int) -> Rollouts:
    """Lets the model go on from before these rows with the actions that were taken."""
    windows = real.windows(targets, length)
    stacks, state = real.stacks(targets - 1), model.initial_state(len(targets))
    steps: list[Dreamt] = []
    for k in range(length):
        found = model.predict(stacks, np.asarray(windows.action[:, k]), state)
        steps.append(found)
        channels = found.observation.shape[-1]
        stacks = np.concatenate([stacks[..., channels:], found.observation], axis=-1)
        state = found.state
    frames = model.sizes.frames
    return Rollouts(
        np.stack([one.observation for one in steps], 1),
        np.asarray(windows.frames[:, frames:]),
        np.rint(np.stack([one.reward for one in steps], 1)),
        np.sign(windows.reward),
        np.stack([one.end for one in steps], 1),
        np.asarray(windows.end),
        np.asarray(windows.valid) > 0,
    )


def shown(done: Rollouts) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and real pictures, black after the real episode's end."""
    known = done.valid[:, :, None, None, None]
    return done.predicted * known, done.real * known


def figures(done: Rollouts) -> dict[str, Any]:
    """The figures of an evaluation.

    A rollout counts for ``at_N`` if real play goes on for N steps, or if its episode is over
    before. Until a predicted or true end, rewards count; after it, they do not.
    """
    whole = _over(done.real_ends & done.valid)
    right = _sums(done.rewards, done.ends) == _sums(
        done.real_rewards * done.valid, done.real_ends & done.valid
    )
    ended = whole[:, -1]
    found: dict[str, Any] = {
        "rollouts": len(done.valid),
        "rollouts_to_end": int(ended.sum()),
        "reward_accuracy/to_end": _mean(right[ended, -1]),
        "end_accuracy": _mean(_first(done.ends)[ended] == _first(done.real_ends)[ended]),
    }
    apart = np.abs(done.predicted.astype(np.int16) - done.real)
    for at in (at for at in (1, *AT) if at <= done.valid.shape[1]):
        there = done.valid[:, at - 1]
        known = there | whole[:, at - 1]
        found |= {
            f"rollouts_at_{at}": int(known.sum()),
            f"reward_accuracy/at_{at}": _mean(right[known, at - 1]),
            f"drift/at_{at}": _mean(apart[there, at - 1]),
            f"pixels_right/at_{at}": _mean(apart[there, at - 1] <= SAME),
        }
    return found


def evaluate(
    model: WorldModel, real: Experience, seed: int, length: int = max(AT), count: int = ROLLOUTS
) -> tuple[dict[str, Any], Rollouts]:
    """Figures of rollouts that start anywhere in real play, and of those that start with it.

    ``from_start/`` are the figures of rollouts from episodes' beginnings, each of them once: what
    follows is the same each time.
    """
    random = np.random.default_rng(seed)
    anywhere = rollouts(model, real, random.choice(real.targets, count), length)
    found = figures(anywhere)
    targets = real.beginnings + 1
    targets = targets[np.isin(targets, real.targets)]
    if len(targets):
        begun = rollouts(model, real, random.permutation(targets)[:count], length)
        found |= {f"from_start/{name}": value for name, value in figures(begun).items()}
        return found, begun
    return found, anywhere


def _over(ends: np.ndarray) -> np.ndarray:
    """Whether an end has been, at each step."""
    return np.logical_or.accumulate(ends, axis=1)


def _sums(rewards: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Sums of rewards until each step, none counted after an end."""
    before = np.concatenate([np.zeros_like(ends[:, :1]), _over(ends)[:, :-1]], axis=1)
    return np.cumsum(rewards * ~before, axis=1)


def _first(ends: np.ndarray) -> np.ndarray:
    """The step of the first end; the length where there is none."""
    return np.where(ends.any(1), ends.argmax(1), ends.shape[1])


def _mean(values: np.ndarray) -> float | None:
    return float(np.mean(values)) if values.size else None
