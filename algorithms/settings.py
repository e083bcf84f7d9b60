"""The base class of the settings of algorithms. Imports nothing heavy."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

from algorithms.feeding import Feeding, FirstInFirstOut
from algorithms.figures import Figure


class Kind(NamedTuple):
    """What kind of level is played."""

    atari: bool = False
    vectors: bool = False  # observations are numbers instead of pictures
    continuous: bool = False  # actions are numbers instead of choices


@dataclasses.dataclass(frozen=True)
class AlgorithmSettings:
    """An algorithm's own settings are fields of a subclass, in a module without TensorFlow."""

    implementation: ClassVar[str] = ""  # package.module:Class, a subclass of ``Algorithm``
    # package.module:function of settings and the names of those given, which trains in phases of
    # its own with the algorithms of others; and what does --mode=test or export for it
    program: ClassVar[str] = ""
    programs: ClassVar[Mapping[str, str]] = {}
    figures: ClassVar[tuple[Figure, ...]] = ()  # of each update, besides its total loss
    defaults: ClassVar[Mapping[str, Any]] = {}  # of other settings, where they differ from theirs
    fixed: ClassVar[tuple[str, ...]] = ()  # fields that a resume must not change
    of_actors: ClassVar[tuple[str, ...]] = ()  # fields by which actors play, wherever they run

    def completed(self, kind: Kind) -> Self:
        """With values for settings that depend on what is played."""
        return self

    @property
    def about(self) -> dict[str, str]:
        """What a run's first line reports of these settings."""
        return {}

    @property
    def feeding(self) -> Feeding:
        """How batches are fed."""
        return FirstInFirstOut()
