"""Figures that an algorithm reports: names, and labels for people. Imports nothing heavy."""

from typing import NamedTuple


class Figure(NamedTuple):
    """A figure of an update."""

    name: str  # in metrics.jsonl and TensorBoard
    label: str  # in the panel, and in lines
    row: str  # in the panel: "losses", "learning", or "" to leave it out
    in_line: bool = True  # whether the one-line report shows it, too
