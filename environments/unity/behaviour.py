"""What agents of a build see and do, and what it says of them; the same for all protocols."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from user_error import UserError


class Behaviour(NamedTuple):
    """A kind of agents: what they see and do. Old builds call it a brain."""

    name: str
    numbers: int  # of an observation
    continuous: int  # axes between -1 and 1
    branches: tuple[int, ...]  # how many choices each discrete action has
    pictures: int = 0  # cameras, which are left out

    def alike(self, other: "Behaviour") -> bool:
        """Whether one agent can play both."""
        return self[1:] == other[1:]


class Shown(NamedTuple):
    """What one message of a build says."""

    asked: Sequence[int]  # agents that are to act now
    observation: np.ndarray  # float32 [asked, numbers]
    reward: np.ndarray  # float32 [asked], since they were last asked
    ended: Sequence[int] = ()  # agents whose episode has ended
    last: np.ndarray | None = None  # float32 [ended, numbers], their final observations if known
    last_reward: Sequence[float] = ()
    terminated: Sequence[bool] = ()  # False: truncated
    over: bool = False  # all episodes are cut, and the build waits for a reset


def joined(one: Shown, other: Shown) -> Shown:
    """Two messages as if the build had sent but one: what the second says of an agent counts."""
    gone = {*other.ended, *other.asked}
    kept = [row for row, agent in enumerate(one.asked) if agent not in gone]
    one = one._replace(
        asked=[one.asked[row] for row in kept],
        observation=one.observation[kept],
        reward=one.reward[kept],
    )
    known = one.last is not None and other.last is not None
    return Shown(
        asked=[*one.asked, *other.asked],
        observation=np.concatenate([one.observation, other.observation]),
        reward=np.concatenate([one.reward, other.reward]),
        ended=[*one.ended, *other.ended],
        last=np.concatenate([one.last, other.last]) if known else None,
        last_reward=[*one.last_reward, *other.last_reward],
        terminated=[*one.terminated, *other.terminated],
        over=other.over,
    )


class Talk(Protocol):
    """A conversation with one build."""

    def begin(self, behaviour: str, parameters: Mapping[str, float]) -> tuple[Behaviour, Shown]:
        """Starts all episodes, of agents of the behaviour of that name; "": of all."""

    def reset(self) -> Shown:
        """Starts all episodes again."""

    def step(self, actions: Mapping[int, np.ndarray]) -> Shown:
        """Goes on; agents without an action get zeros."""

    def close(self) -> None:
        """Asks the build to end."""


class Unusable(UserError):
    """A build that no agent here can play; the message is the end of a sentence."""


def chosen(found: Sequence[Behaviour], wanted: str) -> list[Behaviour]:
    """The behaviours that are played: those of the name, or all if they are alike."""
    names = ", ".join(one.name for one in found)
    # Unity adds teams to names: Striker?team=0.
    mine = [one for one in found if not wanted or wanted in (one.name, one.name.partition("?")[0])]
    if not mine:
        if wanted:
            raise Unusable(f"has no behaviour {wanted}; expected one of {names}")
        raise Unusable(
            "has no agents that ask for decisions; its Behavior Type must be Default, or External "
            "in old builds"
        )
    for one in mine:
        if not one.alike(mine[0]):
            raise Unusable(
                f"has several behaviours that differ: {names}; choose one with "
                "--env_kwargs=behaviour=NAME"
            )
    one = mine[0]
    if one.continuous and one.branches:
        raise Unusable(f"takes continuous and discrete actions together ({one.name})")
    if not one.continuous and not one.branches:
        raise Unusable(f"takes no actions ({one.name})")
    if not one.numbers:
        cameras = " but pictures, which are constant without graphics" if one.pictures else ""
        raise Unusable(f"shows its agents nothing{cameras}; expected vectors ({one.name})")
    return mine
