"""The program of phases as data: what there must be after each. Imports nothing heavy.

Targets are totals since the beginning. A run that was ended at any moment goes through the same
list again, and what it has reached already takes no time.
"""

from typing import NamedTuple

from world_models.settings import SimpleSettings


class Phase(NamedTuple):
    """One phase, and the total that it ends at."""

    kind: str  # collect, model, policy
    epoch: int  # from 0; play that follows epoch n has the number n + 1
    total: int  # agent steps in the real game, updates, or agent steps in the model


def phases(settings: SimpleSettings) -> list[Phase]:
    """All phases in order, or the one that ``--phase`` names."""
    model, policy = settings.times("longer_models"), settings.times("longer_policies")
    dreamed = round(settings.dream_ratio * settings.real_steps)
    every = [Phase("collect", 0, settings.real_steps)]
    for epoch in range(settings.model_epochs):
        every += [
            Phase("model", epoch, settings.model_updates * sum(model[: epoch + 1])),
            Phase("policy", epoch, dreamed * sum(policy[: epoch + 1])),
            Phase("collect", epoch + 1, settings.real_steps * (epoch + 2)),
        ]
    if settings.phase == "all":
        return every
    return next([one] for one in every if one.kind == settings.phase)


def totals(settings: SimpleSettings) -> dict[str, int]:
    """What each kind of phase ends at."""
    return {phase.kind: phase.total for phase in phases(settings)}
