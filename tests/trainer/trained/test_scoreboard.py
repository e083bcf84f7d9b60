"""The table of an evaluation: whole figures of named levels, however narrow the terminal."""

import io

import pytest
from rich.console import Console

from trainer.acting.playing import Game
from trainer.trained.evaluation import summary
from trainer.trained.scoreboard import print_figures

LEVELS = ("BreakoutNoFrameskip-v4", "my_games.many_variants:BreakoutWithManyRows-v12")


def printed(width: int) -> str:
    """What is printed of two levels with all figures."""
    games = [
        Game(float(score), score / 10, 1_800, 7_200, finished=score > 0)
        for score in (428, 310, 64, 0)
    ]
    figures = summary(LEVELS[0], games)
    assert figures["human_normalised_percent"] and figures["unfinished"]
    console = Console(width=width, file=io.StringIO(), markup=False, soft_wrap=True)
    print_figures(console, dict.fromkeys(LEVELS, figures))
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_figures_are_whole_and_rows_are_named_at_every_width(width):
    text = printed(width)
    lines = [line for line in text.splitlines() if line.strip()]
    assert all(len(line) <= width for line in lines) and "…" not in text
    tables = sum(line.split()[0] == "level" for line in lines)
    names = "".join(line.split()[0] for line in lines)  # a long one goes on in the next line
    assert [names.count(level) for level in LEVELS] == [tables, tables]
    assert (tables > 1) == (width < 100)
    for heading in ("games", "cut off", "mean", "95% of means", "clipped", "std", "human %"):
        assert text.count(f" {heading} ") == 1
    for figure in ("428", "200.50", "20.05", "187.00", "1,800.0"):
        assert text.count(f" {figure} ") == len(LEVELS)
