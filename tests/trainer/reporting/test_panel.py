"""The terminal's panel: readable at every width, and the terminal is restored."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from algorithms.own_settings.impala import ImpalaSettings
from tests.trainer.reports import figures, of_levels, settings_of
from trainer.reporting.panel import HISTORY, Panel, sparkline
from trainer.reporting.reporter import Reporter

ROOT = Path(__file__).parents[3]
ABOUT = {"agent": "SimpleConvNetAgent", "level": "PongNoFrameskip-v4"}


def rendered(panel, width, height=50):
    console = Console(
        record=True, width=width, height=height, force_terminal=True, file=io.StringIO()
    )
    console.print(panel)
    return console.export_text()


def panel_of(*reports, note=""):
    panel = Panel("logs/pong", 20_000_000, ImpalaSettings.figures, ABOUT)
    panel.note = note
    for report in reports:
        panel.update(report)
    return panel


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_panel_shows_everything_at_every_width(width):
    text = rendered(panel_of(figures(5_000_000), note="checkpoint written"), width)
    for words in (
        "PongNoFrameskip-v4 · SimpleConvNetAgent",
        "5,000,000 of 20,000,000  25.0%",
        "2,346 frames/s",
        "586 agent steps/s",
        "33 min 20 s",
        "time left 1 h 06 min",
        "mean raw return  -12.5",
        "mean length 1,802 agent steps",
        "learner waits 40%",
        "actors wait 3%",
        "limited by       actors (emulation + inference)",
        "total 0.125",
        "policy gradient 0.010",
        "policy lag 1.500",
        "entropy 1.710",
        "baseline spread 0.420",
        "gradient norm 0.330",
        "checkpoint written",
        "logs/pong",
    ):
        assert words in text
    assert all(cell_len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize("width", [10, 30, 45])
def test_the_panel_survives_terminals_that_are_too_narrow(width):
    panel = panel_of(of_levels(), note="x" * 300)
    assert all(cell_len(line) <= width for line in rendered(panel, width).splitlines())


def test_the_bar_grows_with_the_frames():
    lengths = []
    for frames in (0, 5_000_000, 20_000_000):
        written = io.StringIO()
        Console(width=80, file=written).print(panel_of(figures(frames)))
        line = next(x for x in written.getvalue().splitlines() if "20,000,000" in x)
        lengths.append(line.count("━"))
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


def test_the_panel_is_shown_before_anything_is_known():
    text = rendered(panel_of({"environment_frames": 0}), 80)
    assert "0 of 20,000,000" in text and "mean raw return  –" in text


def test_skipped_updates_are_shown_only_if_there_are_any():
    assert "skipped" not in rendered(panel_of(figures()), 80)
    assert "skipped updates 3" in rendered(panel_of(figures(skipped_updates=3)), 80)


def test_each_level_has_a_line_and_its_own_history():
    text = rendered(panel_of(of_levels(), of_levels(2_000_000)), 80)
    assert "PongNoFrameskip-v4 10.0  ▁▁" in text
    assert "CartPole-v1 –" in text


def test_levels_that_do_not_fit_are_counted():
    levels = [f"Level{i}-v0" for i in range(57)]
    text = rendered(panel_of(of_levels(levels=levels)), 80)
    assert "Level7-v0" in text and "Level8-v0" not in text
    assert "and 49 more levels" in text


def test_a_resume_shows_no_returns_of_another_level(tmp_path):
    settings = settings_of(tmp_path)
    with Reporter(tmp_path, settings, ABOUT) as reporter:
        reporter.report(figures(1000, evaluation_return=7.0, evaluation_frames=500), {})
    with Reporter(tmp_path, settings, ABOUT) as reporter:
        assert "evaluated" in rendered(reporter._panel, 80)
    with Reporter(tmp_path, settings, ABOUT, level_since=1000) as reporter:
        text = rendered(reporter._panel, 80)
    assert "1,000 of 16,000,000" in text and "mean raw return  –\n" in unframed(text)
    assert "evaluated" not in text


def unframed(text: str) -> str:
    """A panel's lines without its frame."""
    return "\n".join(line.strip("│ ") for line in text.splitlines())


def test_a_sparkline_shows_the_trend():
    assert sparkline([], 8) == ""
    assert sparkline([3.0], 8) == "▁"
    assert sparkline([1.0, 1.0], 8) == "▁▁"
    assert sparkline(list(range(8)), 8) == "▁▂▃▄▅▆▇█"
    assert sparkline(list(range(800)), 8) == "▁▂▃▄▅▆▇█"
    assert len(sparkline(list(range(1000)), 24)) == 24


def test_a_long_history_is_thinned_and_keeps_its_ends():
    panel = panel_of(*[figures(i, mean_episode_return=float(i)) for i in range(3 * HISTORY)])
    history = panel._history[""]
    assert len(history) <= HISTORY
    assert history == sorted(history)
    assert (history[0], history[-1]) == (0.0, 3.0 * HISTORY - 1)


SCRIPT = """
import sys
from pathlib import Path
from trainer.settings.config import Settings
from trainer.reporting.reporter import Reporter
from tests.trainer.reports import figures
settings = Settings(logdir=sys.argv[1], total_environment_frames=20_000_000)
reporter = Reporter(Path(sys.argv[1]), settings, {"level": "Pong-v0"})
reporter.report(figures(1_000_000), {})
reporter.say("warning: something to [read] :smile:")
reporter.note("checkpoint written")
reporter.report(figures(2_000_000), {})
if len(sys.argv) > 2:
    raise SystemError("broken")
reporter.finish(figures(2_000_000), "all frames are trained")
"""


def in_terminal(arguments, script=SCRIPT, **environment):
    """A script's exit code, and its output to a terminal of 70 columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 70, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=follower,
        stderr=follower,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"} | environment,
    )
    os.close(follower)
    written = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # Linux: no process has the terminal open any more
            break
        if not part:
            break
        written += part
    os.close(leader)
    return process.wait(), written.decode()


HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def test_in_a_terminal_the_panel_stays_below_the_lines(tmp_path):
    code, written = in_terminal([str(tmp_path)])
    assert code == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    assert "warning: something to [read] :smile:" in text
    total = "2,000,000 of 20,000,000"
    assert text.rindex(total) < text.index("Ended: all frames are trained.")
    assert "agent steps/s     586" not in text
    assert "agent steps/s     586" in (tmp_path / "train.log").read_text()
    assert "checkpoint written" in (tmp_path / "train.log").read_text()
    assert written.rindex(SHOW) > written.rindex(HIDE)


def test_a_return_that_is_not_a_number_is_shown_as_unknown(tmp_path):
    first = "reporter.report(figures(1_000_000), {})"
    odd = "reporter.report(figures(1_500_000, mean_episode_return=float('nan')), {})"
    code, written = in_terminal([str(tmp_path)], SCRIPT.replace(first, f"{first}\n{odd}"))
    assert code == 0, written
    assert "mean raw return       –" in (tmp_path / "train.log").read_text()


def test_a_training_that_fails_restores_the_terminal(tmp_path):
    code, written = in_terminal([str(tmp_path), "break"])
    assert code == 1 and "broken" in written
    assert written.rindex(SHOW) > written.rindex(HIDE)


def test_a_training_that_is_killed_leaves_a_terminal_with_its_cursor(tmp_path):
    notes = "reporter.note("
    dies = f"import os\nos.kill(os.getpid(), 9)\n{notes}"
    code, written = in_terminal([str(tmp_path)], SCRIPT.replace(notes, dies))
    assert code == -9 and "1,000,000 of 20,000,000" in written
    assert written.rindex(SHOW) > written.rindex(HIDE)


def test_colors_can_be_turned_off(tmp_path):
    colored = re.compile(r"\x1b\[[0-9;]*3[0-9]m|\x1b\[38;")
    assert colored.search(in_terminal([str(tmp_path)])[1])
    assert not colored.search(in_terminal([str(tmp_path)], NO_COLOR="1")[1])


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(tmp_path):
    _, written = in_terminal([str(tmp_path)], TERM="dumb")
    assert "agent steps/s     586" in written and "\x1b" not in written
