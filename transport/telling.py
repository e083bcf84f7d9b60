"""What a link tells its user of its learner."""

from collections.abc import Callable

from transport.messages import Lasting, Refused, Stranger

# A block that was not taken so often is worth a line: the first times, the queue may be full.
TRIES_BEFORE_A_LINE = 3


class Telling:
    """Tells what becomes of a link to a learner, as ``learner`` names it."""

    def __init__(
        self, say: Callable[[str], None], learner: str, timeout_s: float, of_learner: bool
    ):
        self.learner = learner
        self._say = say
        self._timeout_s = timeout_s
        self._of_learner = of_learner  # this end is a learner, too
        self._said: set[str] = set()  # why the learner is waited for, since the connection was lost

    def connected(self) -> None:
        """There is a connection."""
        self._said.clear()
        self._say(f"Connected to the learner at {self.learner}.")

    def waits(self, error: Exception) -> None:
        """Says why there is no connection, each reason once."""
        why = str(error).removesuffix(".") or "no answer"
        # Of what passes by itself, one reason is enough.
        kind = why if isinstance(error, Refused | Stranger | Lasting) else ""
        if kind not in self._said:
            self._said.add(kind)
            self._say(f"Waiting for the learner at {self.learner} ({why}).")

    def late(self, size: int) -> None:
        """Its weights of so many bytes take longer than they may."""
        self._say(
            f"The learner at {self.learner} is there, but its weights of {size / 1e6:.3g} MB take "
            f"longer than {self._timeout_s:g} s: the link carries less than "
            f"{size / self._timeout_s / 1e6:.2g} MB/s for each that fetches them. Trying further, "
            "with more time after each try; a longer --peer_timeout_s gives it from the first."
        )

    def not_taken(self, size: int) -> None:
        """It has not taken a block of so many bytes, in several tries."""
        self._say(
            f"The learner at {self.learner} is there, but has not taken a block of "
            f"{size / 1e6:.3g} MB in {TRIES_BEFORE_A_LINE} tries of {self._timeout_s:g} s: its "
            "queue is full, or the link carries less than "
            f"{size / self._timeout_s / 1e6:.2g} MB/s. A longer --peer_timeout_s gives a slow link "
            "time. Trying further."
        )

    def dropped(self, refused: Refused) -> None:
        """The learner has refused a block."""
        self._say(f"A block was dropped: {refused} Further ones are dropped without a line.")

    def refused(self, why: str) -> Refused:
        """What to raise where the learner refuses this end or its blocks."""
        me = "learner" if self._of_learner else "actor"
        return Refused(f"the learner at {self.learner} refuses this {me}: {why}.")
