"""``deterministic``: what follows is certain, given the newest pictures and the action."""

from world_models.networks.next_frame import NextFrame


class Deterministic(NextFrame):
    """Predicts one step from a few pictures; carries nothing, draws nothing."""
