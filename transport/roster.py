"""The actors of a learner: which have joined, left or fallen silent.

Other learners that send it gradients are listed with them, but count as no actors.
"""

import threading
from collections.abc import Callable
from typing import Any

from transport import messages
from transport.messages import Header, Identity


class _Actor:
    """What is known of one actor."""

    def __init__(self) -> None:
        self.name = ""  # empty until it has introduced itself
        self.is_learner = False
        self.number = 0  # of its newest block
        self.silent_s = 0.0
        self.gone = False
        self.waited = 0.0


class Roster:
    """Keeps track of actors from their letters and blocks; reports changes to the user."""

    def __init__(
        self,
        identity: Identity,
        timeout_s: float,
        say: Callable[[str], None],
        of_learners: Identity | None = None,
    ):
        """``of_learners`` is the identity that other learners must have; None: that of actors."""
        self._identities = {False: identity, True: of_learners or identity}  # by ``is_learner``
        self._fingerprints = {messages.fingerprint(one) for one in self._identities.values()}
        self._timeout_s = timeout_s
        self._say = say
        self._actors: dict[bytes, _Actor] = {}
        self._refused: set[bytes] = set()
        self._waited_s = 0.0
        self._passed_s = 0.0  # since the first actor came
        self._actors_s = 0.0  # the same, times the actors that were there
        self._lock = threading.Lock()

    @property
    def present(self) -> int:
        """How many actors are there."""
        with self._lock:
            return len(self._there())

    @property
    def is_empty(self) -> bool:
        """Whether neither actors nor other learners are there."""
        with self._lock:
            return not self._heard_of()

    def hear(self, letter: dict[str, Any]) -> None:
        """Handles a letter of an actor."""
        with self._lock:
            try:
                key, name = bytes.fromhex(letter["actor"]), _plain(str(letter["name"]), 100)
                kind, identity = letter["kind"], dict(letter.get("identity", {}))
                is_learner = letter.get("is_learner") is True
            except (KeyError, TypeError, ValueError):
                return
            if kind == "hello" and identity != self._identities[is_learner]:
                self._refuse(key, f"{name} was refused: {self._differs(identity, is_learner)}.")
            elif kind == "bye":
                self._left(key, name)
            elif key not in self._refused:
                self._heard(key, name, is_learner)

    def accepts(self, header: Header | None) -> bool:
        """Whether to train on a block with this header: it has our identity, and is new."""
        with self._lock:
            if header is None:
                self._refuse(b"", "a block without a valid header was refused.")
                return False
            if header.fingerprint not in self._fingerprints:
                self._refuse(
                    header.actor, "a block with another layout or other settings was refused."
                )
                return False
            actor = self._actors.setdefault(header.actor, _Actor())
            if header.number <= actor.number:
                return False
            actor.number = header.number
            actor.waited = min(1.0, max(0.0, header.waited))  # 0 where it is not a number
            actor.silent_s = 0.0
            return True

    def refuse(self, header: Header, why: str) -> None:
        """Reports that a block cannot be read, once for each actor."""
        with self._lock:
            self._refuse(header.actor, _plain(f"a block was refused: {why}.", 500))

    def pass_time(self, seconds: float) -> None:
        """Adds to the time; reports actors that have been silent for too long."""
        with self._lock:
            there = self._there()
            if there or self._passed_s:
                self._passed_s += seconds
                self._actors_s += seconds * len(there)
            if there:
                self._waited_s += seconds * sum(actor.waited for actor in there) / len(there)
            for actor in self._heard_of():
                actor.silent_s += seconds
                if actor.silent_s > self._timeout_s:
                    actor.gone = True
                    self._say(
                        f"nothing has been heard of {actor.name} for {self._timeout_s:g} s; "
                        f"{self._count()}."
                    )

    def waited_s(self) -> float:
        """Seconds that an actor has waited for the learner, on average."""
        return self._waited_s

    def mean_present(self) -> float:
        """How many actors were there, on average since the first one came."""
        return self._actors_s / self._passed_s if self._passed_s else float(self.present)

    def _heard(self, key: bytes, name: str, is_learner: bool) -> None:
        actor = self._actors.setdefault(key, _Actor())
        actor.silent_s, actor.is_learner = 0.0, is_learner
        if not actor.name:
            actor.name = name
            self._say(f"{name} has joined; {self._count()}.")
        elif actor.gone:
            actor.gone = False
            self._say(f"{name} is back; {self._count()}.")

    def _left(self, key: bytes, name: str) -> None:
        """Removes an actor, but keeps the number of its last block, which may arrive twice."""
        actor = self._actors.get(key)
        if actor and actor.name:
            actor.name, actor.gone = "", False
            self._say(f"{name} has left; {self._count()}.")

    def _refuse(self, key: bytes, message: str) -> None:
        """Reports a refusal, once for each actor."""
        if key not in self._refused:
            self._refused.add(key)
            self._say(message)

    def _differs(self, other: Identity, is_learner: bool) -> str:
        places = ("here", "there") if is_learner else messages.PLACES
        return _plain(messages.differences(self._identities[is_learner], other, places), 2000)

    def _count(self) -> str:
        count = len(self._there())
        return "1 actor connected" if count == 1 else f"{count} actors connected"

    def _there(self) -> list[_Actor]:
        return [actor for actor in self._heard_of() if not actor.is_learner]

    def _heard_of(self) -> list[_Actor]:
        """Those that are there, with other learners."""
        return [actor for actor in self._actors.values() if actor.name and not actor.gone]


def _plain(text: str, longest: int) -> str:
    """Text of an actor, safe to print: no line breaks, no terminal control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:longest])
