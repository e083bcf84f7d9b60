"""How large a world model is; a checkpoint keeps it. Imports nothing heavy."""

import dataclasses

SMALLEST_SIDE = 3  # of the middle: smaller ones would be padding for the most part


@dataclasses.dataclass(frozen=True)
class Sizes:
    """A picture's shape, and what the network for it is made of."""

    height: int
    width: int
    channels: int  # of a picture: 1 grey, 3 colour
    actions: int
    frames: int = 4  # pictures that a prediction sees
    levels: int = 256  # of brightness that a prediction tells apart
    filters: int = 64  # of the largest layer
    doublings: int = 2  # of the filters, on the way to the middle
    depth: int = 6  # halvings of the picture at most
    residuals: int = 2  # layers of the middle
    dropout: float = 0.1
    noise: float = 0.05  # the share of pixels that are replaced in training
    state: int = 0  # channels that are carried from picture to picture
    bits: int = 0  # of chance in a step

    @property
    def sides(self) -> list[tuple[int, int]]:
        """Height and width of each layer, from the picture to the middle."""
        sides = [(self.height, self.width)]
        while len(sides) <= self.depth and max(sides[-1]) > SMALLEST_SIDE:
            height, width = sides[-1]
            sides.append(((height + 1) // 2, (width + 1) // 2))
        return sides

    @property
    def widths(self) -> list[int]:
        """Filters of each layer, from the picture to the middle."""
        return [self.filters << min(n, self.doublings) for n in range(len(self.sides))]
