"""Equal learners, which exchange the gradients of their actors.

Each learner applies every gradient as it comes, so their weights stay near each other but are not
equal. A learner that starts takes the weights of one that is already training, if there is one.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from trainer.learning.batches import LOOK_EVERY_S
from trainer.learning.learner import Learner
from trainer.learning.worker import Computed
from trainer.remote.other_learner import Connect, OtherLearner
from user_error import UserError

# How often a learner asks the others for their weights, to see how far apart they are.
COMPARE_EVERY_S = 5.0
# After so long, a learner that waits for others says who is away, and one that was trained before
# goes on without them. Somebody may have to type a command there.
PATIENCE_S = 120.0


class Stop(Protocol):
    """Whether the program is asked to stop."""

    def is_set(self) -> bool:
        """Whether it is."""


class Peers:
    """The other learners, as one of them sees them."""

    def __init__(
        self,
        learner: Learner,
        addresses: Sequence[str],
        rank: int,
        connect: Connect,
        say: Callable[[str], None],
    ):
        """``addresses`` are of all learners; ``learner`` is number ``rank`` of them."""
        self._learner = learner
        self._rank = rank
        self._say = say
        self._others = [
            OtherLearner(index, address, connect, self._with_age)
            for index, address in enumerate(addresses)
            if index != rank
        ]
        self._apart: float | None = None

    def __enter__(self) -> "Peers":
        for other in self._others:
            other.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, stop: Stop) -> None:
        """Waits for the start: the first learner gives it when all others can be reached.

        Those that have finished are not waited for; a ``UserError`` says if all others have. It
        also says if one has other settings; later that is said by its link, and the others train
        on. A learner that was trained before goes on after a while without those that are away:
        they may have finished and left.
        """
        patience = _Patience(self._learner.updates, self._say)
        self._say(
            "waiting for the other learners: "
            + ", ".join(other.address for other in self._others)
            + "."
        )
        while not stop.is_set():
            # Asked first: the weights of one that trains have then come.
            left = [other for other in self._others if not other.is_finished()]
            away = [other.address for other in left if not other.is_current()]
            training = [
                (*found, other.address) for other in self._others if (found := other.weights())
            ]
            if training:
                self._take(*max(training, key=lambda found: found[1]))
                return
            if not left:
                raise UserError(
                    "--peers: all others have finished, so this learner ends, too. To train on, "
                    "start it without --peers, or all of them with more "
                    "--total_environment_frames."
                )
            if not away and all(other.rank > self._rank for other in left):
                self._say("all learners are there: they start.")
                return
            # One after the other, so that the next ones take the weights of the first.
            before = sum(other.rank < self._rank and other.is_reached() for other in left)
            if patience.is_over(away, before):
                return
            self._check()
            time.sleep(LOOK_EVERY_S)

    def _take(self, weights: list[np.ndarray], version: int, address: str) -> None:
        """Starts with another's weights, unless that one knows nothing of what this one learned."""
        learner = self._learner
        if version < learner.updates / 2:
            raise UserError(
                f"--peers: {address} trains with weights after {version:,} updates, and this "
                f"learner has made {learner.updates:,}, which would be lost. Put a copy of this "
                "one's folder in the place of that one's, or start this one with another --logdir."
            )
        for mine, theirs in zip(learner.weights, weights, strict=True):
            mine.assign(theirs)
        learner.updates = version
        self._say(f"the learners start with the weights after {version:,} updates.")

    def forward(self, block: Computed) -> None:
        """Sends gradients of this learner's own actors to the others."""
        if block.origin < 0:
            for other in self._others:
                other.send(block)

    def arrived(self, block: Computed) -> Computed:
        """Numbers the weights of another learner's gradients by the updates of this one.

        They count as of so many updates ago as they were old when they were sent.
        """
        return block if block.origin < 0 else _of_version(block, self._since(block))

    def _with_age(self, block: Computed) -> Computed:
        """As it is sent: others count other updates, so they get its age in place of a version."""
        sent = block._replace(origin=np.array(self._rank, np.int32))
        return _of_version(sent, self._since(block))

    def _since(self, block: Computed) -> np.ndarray:
        """The updates since a version; for an age, the version that is so old."""
        return np.float32(self._learner.updates) - block.unrolls.weights_version

    def offer(self, learner: Learner, environment_frames: int) -> None:
        """Compares the learner's weights with those of the others that have come."""
        distances = [
            _distance(learner.weights, weights)
            for other in self._others
            if (weights := other.take_new()) is not None
        ]
        if distances:
            self._apart = max(distances)

    def figures(self) -> dict[str, Any]:
        """Figures for the next report."""
        return {
            "learners_reached": 1 + sum(other.is_reached() for other in self._others),
            "learners_apart": self._apart,
            "gradients_not_sent": sum(other.dropped for other in self._others),
        }

    def close(self) -> None:
        """Leaves the others."""
        for other in self._others:
            other.close()

    @property
    def hangs(self) -> bool:
        """Whether, after that, a call to a silent one has not ended yet."""
        return any(other.hangs() for other in self._others)

    def _check(self) -> None:
        for other in self._others:
            if refusal := other.refusal():
                raise UserError(str(refusal)) from None


class _Patience:
    """How long a learner waits for others that are away, and what it says meanwhile."""

    def __init__(self, updates: int, say: Callable[[str], None]):
        """``updates`` are those that the learner has made before."""
        self._updates = updates
        self._say = say
        self._all_there = time.monotonic()  # when they were last
        self._has_said = False

    def is_over(self, away: Sequence[str], before: int) -> bool:
        """Whether a trained learner goes on alone, after ``before`` others that do so, too."""
        if not away:
            self._all_there = time.monotonic()
        waited = time.monotonic() - self._all_there
        if self._updates and waited > PATIENCE_S * (1 + before):
            self._say(
                f"{', '.join(away)} could not be reached for {waited:.0f} s: this learner goes "
                f"on without, after its {self._updates:,} updates. Those that come later "
                "take its weights."
            )
            return True
        if not self._updates and not self._has_said and waited > PATIENCE_S:
            self._has_said = True
            self._say(
                f"{', '.join(away)} could not be reached for {waited:.0f} s. Waiting "
                "further; to train without others, start this learner without --peers."
            )
        return False


def _of_version(block: Computed, version: np.ndarray) -> Computed:
    return block._replace(unrolls=block.unrolls._replace(weights_version=version))


def _distance(mine: Sequence[tf.Variable], theirs: Sequence[np.ndarray]) -> float:
    """The distance of two learners' trained weights, as a fraction of the size of one's.

    Counters and means of what is seen are not trained, and much larger.
    """
    both = zip(mine, theirs, strict=True)
    pairs = [(one.numpy(), other) for one, other in both if one.trainable]
    apart = sum(float(np.sum(np.square(one - other))) for one, other in pairs)
    size = sum(float(np.sum(np.square(one))) for one, _ in pairs)
    return float(np.sqrt(apart / max(size, 1e-12)))
