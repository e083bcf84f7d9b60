"""This end of a link: how it makes itself known to its learner, and what both have in common."""

import uuid
from typing import Any

from transport import messages
from transport.messages import Header, Identity


class ThisEnd:
    """An actor, or another learner, as its learner gets to know it."""

    def __init__(self, name: str, identity: Identity, of_learner: bool):
        """``identity`` must be the learner's, too; ``name`` is for messages."""
        self._identity = identity
        self._fingerprint = messages.fingerprint(identity)
        self._id = uuid.uuid4()
        self._of_learner = of_learner
        self._about_me = {"actor": self._id.hex, "name": name, "is_learner": of_learner}

    def hello(self) -> bytes:
        """The first message of a connection."""
        return self.letter("hello", identity=self._identity)

    def letter(self, kind: str, **more: Any) -> bytes:
        """A message of this kind, which says who sends it."""
        return messages.encode({"kind": kind, **self._about_me, **more})

    def header(self, number: int, count: int, waited: float) -> Header:
        """Goes with a block of ``count`` unrolls."""
        return Header(self._fingerprint, self._id.bytes, number, count, waited)

    def differences(self, about: dict[str, Any]) -> str:
        """How the learner's identity differs from this one, in words; empty where it is equal.

        ``about`` is what the learner has said of itself.
        """
        places = ("there", "here") if self._of_learner else messages.PLACES
        of_actors = about["identity"]
        theirs = about.get("of_learners", of_actors) if self._of_learner else of_actors
        return messages.differences(theirs, self._identity, places)
