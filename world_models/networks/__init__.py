"""Networks that predict a game's next picture, reward and end: Sonnet, one file an architecture."""

from world_models.networks.next_frame import NextFrame, Prediction
from world_models.networks.registry import ARCHITECTURES, make
from world_models.networks.sizes import Sizes

__all__ = ["ARCHITECTURES", "NextFrame", "Prediction", "Sizes", "make"]
