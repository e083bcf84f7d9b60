"""What levels and bodies have in common: whether one agent can play them, and as how many kinds."""

import dataclasses
from collections.abc import Sequence

import gymnasium
import numpy as np
from gymnasium import spaces

from environments.step import BodyKind, EnvironmentSpec
from user_error import UserError, in_short

FITTING = "Bodies of one agent may see vectors of any sizes, or pictures of one size"


def together(specs: Sequence[EnvironmentSpec]) -> EnvironmentSpec:
    """The spec of an agent that plays all these levels; a UserError unless one agent can.

    It is the first level's, or has `kinds` where bodies differ.
    """
    one = specs[0]
    for other in specs[1:]:
        if difference := _difference(one, other):
            raise UserError(_refusal(one, other, difference))
    kinds = distinct([kind for spec in specs for kind in spec.rows])
    if len(specs) == 1 or len(kinds) == 1:
        return one
    return of_kinds(dataclasses.replace(one, action_meanings=None, keys=()), kinds, ())


def of_kinds(
    spec: EnvironmentSpec, kinds: Sequence[BodyKind], row_kinds: Sequence[int]
) -> EnvironmentSpec:
    """The spec with spaces that have room for these kinds."""
    return dataclasses.replace(
        spec,
        observation_space=_seen_by_all(kinds),
        action_space=_done_by_all([kind.action_space for kind in kinds]),
        kinds=tuple(kinds),
        row_kinds=tuple(row_kinds),
    )


def of_row(spec: EnvironmentSpec, row: int) -> EnvironmentSpec:
    """The spec with the spaces of the body whose row it is, as if it were alone."""
    own = spec.rows[row % spec.num_bodies]
    return dataclasses.replace(spec, **own._asdict(), kinds=(), row_kinds=())


def check_alike(one: EnvironmentSpec, other: EnvironmentSpec) -> None:
    """Raises a UserError unless an agent of one of these levels can play the other as it is."""
    difference = _difference(one, other)
    pairs = [] if difference else zip(one.rows, other.rows, strict=True)
    for mine, theirs in pairs:
        if mine.action_space != theirs.action_space:
            difference = (
                f"actions {in_short(mine.action_space)} and {in_short(theirs.action_space)}"
            )
        elif not are_alike(mine, theirs):
            difference = f"observations {_shape(mine)} and {_shape(theirs)}"
    if difference:
        raise UserError(_refusal(one, other, difference))


def are_alike(one: BodyKind, other: BodyKind) -> bool:
    """Whether bodies can have the same layers: bounds of what they see may differ."""
    return _shape(one) == _shape(other) and one.action_space == other.action_space


def number_of(kind: BodyKind, kinds: Sequence[BodyKind]) -> int | None:
    """The place of a kind among others; None if it is not one of them."""
    return next((i for i, other in enumerate(kinds) if are_alike(kind, other)), None)


def numbers_of(own: EnvironmentSpec, spec: EnvironmentSpec) -> tuple[int, ...]:
    """Which kinds of `spec` the bodies of a level are; a UserError if one is none of them."""
    found = tuple(number_of(kind, spec.kinds) for kind in own.rows)
    for kind, number in zip(own.rows, found, strict=True):
        if number is None:
            raise UserError(
                f"--level_name: {own.level_name} is not for this agent: a body there has "
                f"{described([kind])}; expected {described(spec.kinds)}."
            )
    return tuple(number for number in found if number is not None)


def distinct(kinds: Sequence[BodyKind]) -> list[BodyKind]:
    """The kinds that are not alike, each where it comes first."""
    found: list[BodyKind] = []
    for kind in kinds:
        if number_of(kind, found) is None:
            found.append(kind)
    return found


def fit_together(kinds: Sequence[BodyKind]) -> bool:
    """Whether there are rows for all of these: for vectors, or for pictures of one size."""
    vectors = all(len(kind.observation_space.shape) == 1 for kind in kinds)
    return vectors or len({_shape(kind) for kind in kinds}) == 1


def described(kinds: Sequence[BodyKind]) -> str:
    """What each kind sees and does."""
    return "; ".join(f"{_shape(kind)} with {in_short(kind.action_space)}" for kind in kinds)


def _difference(one: EnvironmentSpec, other: EnvironmentSpec) -> str:
    """What keeps an agent from playing both."""
    if not fit_together([*one.rows, *other.rows]):
        return f"observations {_shape(one.rows[0])} and {_shape(other.rows[0])}"
    if one.bodies != other.bodies:
        return f"bodies {_named(one)} and {_named(other)}"
    if one.measures != other.measures:
        return "worlds in real time and worlds that wait"
    if one.frames_per_step != other.frames_per_step:
        return f"steps of {one.frames_per_step} and {other.frames_per_step} frames"
    if one.frame_stack != other.frame_stack:
        return f"frame stacks {one.frame_stack} and {other.frame_stack}"
    return ""


def _refusal(one: EnvironmentSpec, other: EnvironmentSpec, difference: str) -> str:
    remedy = f" {FITTING}." if difference.startswith("observations") else ""
    return (
        f"--level_name: {one.level_name} and {other.level_name} cannot share an agent: "
        f"they have {difference}.{remedy}"
    )


def _seen_by_all(kinds: Sequence[BodyKind]) -> spaces.Box:
    seen = [kind.observation_space for kind in kinds]
    if len(seen[0].shape) == 3:
        return seen[0]
    longest = max(space.shape[0] for space in seen)
    lows, highs = (
        np.stack([np.pad(bound, (0, longest - len(bound))) for bound in bounds])
        for bounds in ([space.low for space in seen], [space.high for space in seen])
    )
    return spaces.Box(
        np.append(lows.min(0), np.float32(0)),
        np.append(highs.max(0), np.float32(len(kinds) - 1)),
        dtype=np.float32,
    )


def _done_by_all(own: Sequence[gymnasium.Space]) -> gymnasium.Space:
    if all(isinstance(space, spaces.Discrete) for space in own):
        return spaces.Discrete(max(int(space.n) for space in own))  # type: ignore[attr-defined]
    width = max(count_of(space) for space in own)
    if any(isinstance(space, spaces.Box) for space in own):
        return spaces.Box(-np.inf, np.inf, (width,), np.float32)
    counts = [np.ravel(getattr(space, "nvec", getattr(space, "n", 1))) for space in own]
    padded = [np.pad(count, (0, width - len(count)), constant_values=1) for count in counts]
    return spaces.MultiDiscrete(np.max(padded, axis=0))


def count_of(space: gymnasium.Space) -> int:
    """How many numbers an action has."""
    return int(np.prod(space.shape or ()))


def _shape(kind: BodyKind) -> str:
    return f"{kind.observation_space.dtype}{list(kind.observation_space.shape)}"


def _named(spec: EnvironmentSpec) -> str:
    return ", ".join(spec.bodies) or "one"
