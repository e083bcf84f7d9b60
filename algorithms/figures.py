"""What an algorithm reports: names, and how people read them. Imports nothing heavy."""

from typing import NamedTuple


class Figure(NamedTuple):
    """A figure of an update."""

    name: str  # in metrics.jsonl and TensorBoard
    label: str  # in the panel, and in lines
    row: str  # of the panel: "losses", "learning", or "" where it is not shown there
    in_line: bool = True  # whether the one-line report shows it, too
