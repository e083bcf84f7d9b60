"""The base class of the settings of algorithms. Imports nothing heavy."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from algorithms.feeding import Feeding, FirstInFirstOut
from algorithms.figures import Figure


@dataclasses.dataclass(frozen=True)
class AlgorithmSettings:
    """An algorithm's own settings are fields of a subclass, in a module without TensorFlow."""

    implementation: ClassVar[str]  # package.module:Class, a subclass of ``Algorithm``
    figures: ClassVar[tuple[Figure, ...]] = ()  # of each update, besides its total loss
    defaults: ClassVar[Mapping[str, Any]] = {}  # of other settings, where they differ from theirs
    fixed: ClassVar[tuple[str, ...]] = ()  # fields that a resume must not change

    def completed(self, atari: bool, vectors: bool) -> Self:
        """With values for settings that depend on what is played.

        ``vectors``: observations are numbers instead of pictures.
        """
        return self

    @property
    def about(self) -> dict[str, str]:
        """What a run's first line reports of these settings."""
        return {}

    @property
    def feeding(self) -> Feeding:
        """How batches are fed."""
        return FirstInFirstOut()
