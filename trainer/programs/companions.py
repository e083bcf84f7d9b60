"""What goes on beside a training, such as evaluations: the interface that programs see of it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from environments import EnvironmentSpec
from trainer.learning.learner import Learner
from trainer.settings.config import Settings


class Companion(Protocol):
    """Plays with the newest weights in a thread of its own."""

    def offer(self, learner: Learner, environment_frames: int) -> None:
        """Called between updates: it copies the weights if it is ready for new ones."""

    def figures(self) -> dict[str, Any]:
        """Figures since the last call, for the next report."""

    def close(self) -> None:
        """Ends it, within a step of its environments."""


# Makes the companions that the settings ask for; they report with the last argument.
Companions = Callable[[Settings, EnvironmentSpec, Callable[[str], None]], Sequence[Companion]]


def nobody(
    settings: Settings, spec: EnvironmentSpec, say: Callable[[str], None]
) -> Sequence[Companion]:
    """No companions."""
    return ()
