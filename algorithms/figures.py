"""Figures that an algorithm or a level reports: names, and labels for people.

Imports nothing heavy.
"""

from typing import NamedTuple

WORLD = "world"  # the panel's row for what a level has measured


class Figure(NamedTuple):
    """A figure of an update, or of the steps between two reports."""

    name: str  # in metrics.jsonl and TensorBoard
    label: str  # in the panel, and in lines
    row: str  # in the panel: "losses", "learning", WORLD, or "" to leave it out
    in_line: bool = True  # whether the one-line report shows it, too


# Of algorithms with a policy and a baseline.
OF_POLICY_AND_BASELINE = (
    Figure("policy_gradient_loss", "policy gradient", "losses", in_line=False),
    Figure("baseline_loss", "baseline", "losses", in_line=False),
    Figure("entropy", "entropy", "learning"),
)
