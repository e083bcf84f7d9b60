"""The learning curve: a small picture of any run."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tests.trainer.reports import figures, of_levels, settings_of
from trainer.reporting import curve, several
from trainer.reporting.curve import title, write_curve, write_curves
from trainer.storage.checkpoints import Checkpoint, Store

BLUE, ORANGE, GREEN = (0x1F, 0x6F, 0xEB), (0xD9, 0x73, 0x0D), (0x1A, 0x7F, 0x37)
TITLE = "PongNoFrameskip-v4 · SimpleConvNetAgent"


def draw(folder, rows, text=TITLE, since=0):
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "metrics.jsonl").write_text("".join(lines))
    path = write_curve(folder, text, since)
    assert path == folder / "learning_curve.png"
    assert path.stat().st_size < 100_000
    assert not list(folder.glob(".*"))
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


def places_of(picture, color):
    """Rows and columns of a color."""
    return np.nonzero((np.abs(picture - color) < 24).all(-1))


def climbing(points, wall_time=None):
    return [
        figures(1000 * i, mean_episode_return=float(i), wall_time=wall_time or 0.5 * i)
        for i in range(1, points + 1)
    ]


def test_a_climbing_return_climbs_in_both_panels(tmp_path):
    picture = draw(tmp_path, climbing(200))
    rows, columns = places_of(picture, BLUE)
    middle = picture.shape[1] // 2
    for half in (columns < middle, columns >= middle):
        x, y = columns[half], rows[half]
        assert np.ptp(x) > 300 and np.ptp(y) > 200
        assert np.corrcoef(x, y)[0, 1] < -0.99


def test_lengths_of_episodes_are_drawn_below_the_returns(tmp_path):
    rows = climbing(200)
    falling = [row | {"mean_episode_length": 500.0 - i} for i, row in enumerate(rows)]
    picture = draw(tmp_path, falling)
    (returns, _), (lengths, columns) = places_of(picture, BLUE), places_of(picture, GREEN)
    middle = picture.shape[1] // 2
    for half in (columns < middle, columns >= middle):
        x, y = columns[half], lengths[half]
        assert y.min() > returns.max() and np.ptp(x) > 300
        assert np.corrcoef(x, y)[0, 1] > 0.99
    unknown = draw(tmp_path, [row | {"mean_episode_length": None} for row in rows])
    assert not len(places_of(unknown, GREEN)[0]) and len(unknown) < len(picture)


def test_the_lengths_of_each_agent_have_its_colour(tmp_path):
    runs = {"left": tmp_path / "left", "right": tmp_path / "right"}
    for folder, change in zip(runs.values(), (1, -1), strict=True):
        folder.mkdir()
        lengths = [{"mean_episode_length": 500.0 + change * i} for i in range(200)]
        draw(folder, [row | one for row, one in zip(climbing(200), lengths, strict=True)])
    with Image.open(write_curves(tmp_path, TITLE, runs, dict.fromkeys(runs, 0))) as picture:
        all_of_it = np.asarray(picture.convert("RGB")).astype(int)
    below = all_of_it[len(all_of_it) * 3 // 4 : -80]  # returns are above, the legend is below
    for color in (0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E):
        assert len(places_of(below, color)[0]) > 100


def test_evaluations_stand_at_the_frames_of_the_weights_that_played_them(tmp_path):
    rows = climbing(200)
    late = {"evaluation_return": 150.0, "evaluation_frames": 50_000}
    picture = draw(tmp_path, [*rows[:150], rows[150] | late, *rows[151:]])
    _, line = places_of(picture, BLUE)
    _, columns = places_of(picture[:-60], ORANGE)  # without the legend
    middle = picture.shape[1] // 2
    for half in (lambda each: each < middle, lambda each: each >= middle):
        start, end, x = line[half(line)].min(), line[half(line)].max(), columns[half(columns)]
        assert (np.median(x) - start) / (end - start) == pytest.approx(0.25, abs=0.03)


def test_evaluations_from_before_the_first_episode_has_ended_are_drawn(tmp_path):
    rows = climbing(200)
    for row in rows[:100]:
        row["mean_episode_return"] = None
    rows[60] |= {"evaluation_return": 150.0, "evaluation_frames": 50_000}
    picture = draw(tmp_path, rows)[:-60]  # without the legend
    (_, line), (_, columns) = places_of(picture, BLUE), places_of(picture, ORANGE)
    middle = picture.shape[1] // 2
    for half in (lambda each: each < middle, lambda each: each >= middle):
        start, end, x = line[half(line)].min(), line[half(line)].max(), columns[half(columns)]
        assert (start - np.median(x)) / (end - start) == pytest.approx(51 / 99, abs=0.03)
    only = draw(tmp_path, rows[:100])
    assert len(places_of(only[:-60], ORANGE)[0]) > 0


@pytest.mark.parametrize("points", [0, 1, 2])
def test_few_points_make_a_picture(points, tmp_path):
    picture = draw(tmp_path, climbing(points))
    assert (len(places_of(picture, BLUE)[0]) > 0) == (points > 0)


def test_a_run_whose_episodes_never_ended_makes_a_picture(tmp_path):
    draw(tmp_path, [figures(1000, mean_episode_return=None)])


def test_a_run_without_metrics_makes_a_picture(tmp_path):
    assert write_curve(tmp_path, TITLE).exists()


def test_another_levels_returns_are_not_drawn(tmp_path):
    other = [figures(100 * i, mean_episode_return=900.0) for i in range(1, 50)]
    own = [row | {"environment_frames": 5000 + row["environment_frames"]} for row in climbing(150)]
    with_other = draw(tmp_path, [*other, *own], since=5000)
    assert (with_other == draw(tmp_path, own)).all()


def test_another_levels_returns_are_not_drawn_for_several_agents_either(tmp_path):
    other = [figures(100 * i, mean_episode_return=900.0) for i in range(1, 50)]
    own = [row | {"environment_frames": 5000 + row["environment_frames"]} for row in climbing(150)]
    settings = settings_of(tmp_path, agents="left,_right", level_name="CartPole-v1,Acrobot-v1")
    pictures = []
    for rows in ([*other, *own], own):
        for name, since in (("left", 5000), ("_right", 0)):
            folder = several.folder_of(tmp_path, name)
            (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
            counters = {"environment_frames": 9, "level_since": since}
            checkpoint = Checkpoint({}, {}, {}, counters, {})
            Store(folder / "checkpoints", 1).save(checkpoint)
            draw(folder, rows if name == "left" else own)
        several.draw(tmp_path, settings, print)
        pictures.append((tmp_path / "learning_curve.png").read_bytes())
    assert pictures[0] == pictures[1]


def test_a_name_that_begins_with_an_underscore_is_in_the_legend(tmp_path, monkeypatch):
    drawn: list[Figure] = []

    def noted(figure):
        drawn.append(figure)
        return b""

    runs = {name: tmp_path / name for name in ("_left", "right")}
    for folder in runs.values():
        folder.mkdir()
        draw(folder, climbing(20))
    monkeypatch.setattr(curve, "png", noted)
    write_curves(tmp_path, TITLE, runs, dict.fromkeys(runs, 0))
    [legend] = drawn[-1].legends
    assert [text.get_text().strip() for text in legend.get_texts()] == list(runs)


def test_undone_reports_are_not_drawn(tmp_path):
    undone = [figures(100_000 + i, mean_episode_return=900.0) for i in range(50)]
    with_undone = draw(tmp_path, [*undone, *climbing(150)])
    assert (with_undone == draw(tmp_path, climbing(150))).all()


@pytest.mark.parametrize("levels", [3, 57])
def test_several_levels_are_drawn_together(levels, tmp_path):
    names = [f"Level{i}NoFrameskip-v4" for i in range(levels)]
    random = np.random.default_rng(0)
    rows = []
    for i in range(1, 300):
        row = of_levels(1000 * i, levels=names, wall_time=400.0 * i)
        noise = {f"mean_episode_return/{name}": float(random.normal(i, 20)) for name in names}
        rows.append(row | noise if i > 20 else row)
    draw(tmp_path, rows, title(names, "ResNetLSTMAgent", 1))


def test_what_stands_between_dollars_is_no_formula(tmp_path):
    draw(tmp_path, [of_levels(10, (r"$\none$", "b"))], r"$\none$")


def test_a_full_disk_leaves_the_previous_picture(tmp_path, monkeypatch):
    draw(tmp_path, climbing(5))
    before = (tmp_path / "learning_curve.png").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_curve(tmp_path, TITLE)
    assert (tmp_path / "learning_curve.png").read_bytes() == before
    assert not list(tmp_path.glob(".*"))
