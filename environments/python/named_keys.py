"""The keys that an environment names for its actions."""

from typing import Any

import gymnasium

from environments.realtime import keys
from environments.realtime.actions import Action
from user_error import UserError

_ATARI_KEYS = {"FIRE": "space", "UP": "up", "DOWN": "down", "LEFT": "left", "RIGHT": "right"}


def named_keys(env: gymnasium.Env) -> tuple[Action, ...]:
    """What each action presses, in the order of the actions; () where the environment names none.

    That of a page's actions; of other environments the keys of `keys_of_actions`, or arrows and the
    space bar where `get_action_meanings` are words of Atari. Neither counts unless it tells all
    actions apart.
    """
    if not isinstance(env.action_space, gymnasium.spaces.Discrete):
        return ()
    plain: Any = env.unwrapped
    count = int(env.action_space.n)
    if (given := getattr(plain, "desktop_actions", None)) and len(given) == count:
        return given
    own = getattr(plain, "keys_of_actions", None)
    if own and len(own) == count:
        return tuple(Action(held=_own(names)) for names in own)
    called = [_atari(meaning) for meaning in _meanings(plain)]
    # Words that are not Atari's would be no key at all, and nothing that an agent can do.
    if called and not called[0] and len(called) == len({*called}) == count:
        return tuple(Action(held=held) for held in called)
    return ()


def _own(names: Any) -> frozenset[str]:
    told = "--level_name: its keys_of_actions"
    if isinstance(names, str):
        raise UserError(
            f"{told}: {names!r}: expected a tuple of names for each action, such as ('left',), or "
            "() for none."
        )
    return frozenset(keys.check(name, told) for name in names)


def _meanings(plain: Any) -> list[str]:
    """What the environment calls its actions, if it does so in words."""
    found = plain.get_action_meanings() if hasattr(plain, "get_action_meanings") else []
    return [*found] if all(isinstance(one, str) for one in found) else []


def _atari(meaning: str) -> frozenset[str]:
    return frozenset(key for word, key in _ATARI_KEYS.items() if word in meaning)
