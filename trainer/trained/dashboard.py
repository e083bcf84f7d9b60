"""Draws the game beside what the agent computes: its value as a curve, its policy as bars.

Of agents that learn a value for each action, the bars are those values.
"""

from typing import Any, NamedTuple

import cv2
import gymnasium
import numpy as np

from agents import FORBIDDEN, distribution_for
from agents.distributions import LOG_STD_RANGE, WIDEST_BOUNDS
from environments import EnvironmentSpec, narrowed, of_row

HEIGHT = 448
MARGIN = 14
WIDEST_PICTURE = 640
PANEL = 340
CURVE_TOP = 136
AXIS = 44  # room for the curve's numbers
CURVE_STEPS = 250
REWARD_TICK = 7
MOST_BARS = 18
BAR_ROW = 24
BARS_HEIGHT = 172

Colour = tuple[int, int, int]
GROUND, FIELD, GRID = (18, 20, 26), (28, 31, 40), (58, 63, 77)
TEXT, FAINT = (232, 234, 240), (139, 146, 163)
VALUE, CHOSEN, BAR = (96, 205, 255), (255, 193, 84), (86, 101, 138)
GAIN, LOSS = (120, 220, 130), (255, 105, 105)


class Bar(NamedTuple):
    """One row of the policy: an action, and how likely it is or what its value is."""

    name: str
    start: float  # ends of the bar, from 0 to 1
    stop: float
    text: str
    chosen: bool
    mark: float | None = None  # the value of a continuous action


class Dashboard:
    """Pictures of one episode, each with the episode so far."""

    def __init__(
        self, spec: EnvironmentSpec, subtitle: str, action_values: bool = False, row: int = 0
    ):
        """``row`` is the environment's in its batch."""
        self._spec = of_row(spec, row)
        self._actions = spec.action_space
        self._parameters = distribution_for(self._spec.action_space).parameter_count
        self._action_values = action_values
        self._subtitle = subtitle
        self._values: list[float] = []
        self._rewards: list[float] = []

    def draw(
        self,
        picture: np.ndarray,
        *,
        reward: float,
        first: bool,
        action: np.ndarray,
        policy: np.ndarray,
        value: float,
    ) -> np.ndarray:
        """RGB [H, W, 3], H and W multiples of 16; ``first`` starts a new episode."""
        if first:
            self._values, self._rewards = [], []
        self._values.append(value)
        self._rewards.append(reward)
        picture = fitted(picture)
        height, width = picture.shape[:2]
        # Video codecs need sizes in multiples of 16.
        total = -(-(width + 2 * MARGIN + PANEL) // 16) * 16
        canvas = np.full((HEIGHT, total, 3), GROUND, np.uint8)
        top = (HEIGHT - height) // 2
        canvas[top : top + height, MARGIN : MARGIN + width] = picture
        left, right = width + 2 * MARGIN, total - MARGIN
        # Bodies that differ have room for more.
        policy = policy[: self._parameters]
        action = narrowed(action, self._actions, self._spec.action_space)
        rows = bars(self._spec, policy, action, self._action_values)
        bars_top = HEIGHT - MARGIN - min(BARS_HEIGHT, BAR_ROW * len(rows))
        self._draw_numbers(canvas, left, right)
        self._draw_curve(canvas, left, right, bottom=bars_top - 28)
        self._draw_bars(canvas, left, right, rows, top=bars_top)
        return canvas

    def _draw_numbers(self, canvas: np.ndarray, left: int, right: int) -> None:
        write(canvas, self._spec.level_name, (left, 32), TEXT, 17, 600, right - left)
        write(canvas, self._subtitle, (left, 51), FAINT, 12, 400, right - left)
        numbers = {
            "step": f"{len(self._values) - 1:,}",
            "return": readable(sum(self._rewards)),
            "value": f"{self._values[-1]:.3g}",
        }
        for index, (name, number) in enumerate(numbers.items()):
            x = left + index * (right - left) // 3
            write(canvas, name, (x, 78), FAINT, 11)
            write(canvas, number, (x, 99), VALUE if name == "value" else TEXT, 19, 600)

    def _draw_curve(self, canvas: np.ndarray, left: int, right: int, bottom: int) -> None:
        write(canvas, "value: discounted reward to come", (left, CURVE_TOP - 10), FAINT, 11)
        write(canvas, "reward", (right - 76, CURVE_TOP - 10), GAIN, 11)
        write(canvas, "loss", (right - 26, CURVE_TOP - 10), LOSS, 11)
        cv2.rectangle(canvas, (left + AXIS, CURVE_TOP), (right, bottom), FIELD, -1)
        ends = np.array(scale(self._values))
        highest, lowest = CURVE_TOP + 8, bottom - REWARD_TICK - 8

        def ys(values: np.ndarray) -> np.ndarray:
            return lowest - (lowest - highest) * (values - ends[0]) / (ends[1] - ends[0])

        for end, y in zip(ends, ys(ends).round().astype(int), strict=True):
            cv2.line(canvas, (left + AXIS, y), (right, y), GRID, 1)
            write(canvas, f"{end:.3g}", (left, y + 4), FAINT, 10, width=AXIS - 4)
        values = np.array(self._values[-CURVE_STEPS:])
        xs = left + AXIS + (right - left - AXIS) * np.arange(len(values)) / (CURVE_STEPS - 1)
        for x, reward in zip(xs.astype(int), self._rewards[-CURVE_STEPS:], strict=True):
            if reward:
                colour = GAIN if reward > 0 else LOSS
                cv2.line(canvas, (x, bottom - REWARD_TICK), (x, bottom), colour, 1)
        points = np.stack([xs, ys(values)], axis=1)
        cv2.polylines(canvas, [fine(points)], False, VALUE, 1, cv2.LINE_AA, FINE_BITS)
        dot(canvas, points[-1], 4, TEXT)

    def _draw_bars(
        self, canvas: np.ndarray, left: int, right: int, rows: list[Bar], top: int
    ) -> None:
        continuous = isinstance(self._spec.action_space, gymnasium.spaces.Box)
        title = "value of each action" if self._action_values else "policy"
        if continuous:
            title = "action: mean ± deviation, and the one taken"
        write(canvas, title, (left, top - 8), FAINT, 11)
        hidden = len(rows) - MOST_BARS
        if hidden > 0:
            rows = rows[:MOST_BARS]
            write(canvas, f"{hidden} more not shown", (right - 90, top - 8), FAINT, 11)
        columns = 1 if len(rows) <= 9 else 2
        deep = -(-len(rows) // columns)
        row_height = min(float(BAR_ROW), (HEIGHT - MARGIN - top) / deep)
        width = (right - left - 12 * (columns - 1)) // columns
        for index, bar in enumerate(rows):
            column, row = divmod(index, deep)
            x, y = left + column * (width + 12), round(top + row * row_height)
            self._draw_bar(canvas, bar, x, y, width, round(row_height) - 5, compact=columns > 1)

    @staticmethod
    def _draw_bar(
        canvas: np.ndarray, bar: Bar, x: int, y: int, width: int, height: int, *, compact: bool
    ) -> None:
        colour = CHOSEN if bar.chosen else FAINT
        size = 10 if compact else 12 if height > 15 else 11
        base = y + (height + size) // 2 - 1
        label, number = (88, 0) if compact else (106, 48)
        write(canvas, bar.name, (x, base), colour, size, 600 if bar.chosen else 400, label - 4)
        start, stop = x + label, x + width - number
        cv2.rectangle(canvas, (start, y), (stop, y + height), FIELD, -1)
        ends = [round(start + (stop - start) * end) for end in (bar.start, bar.stop)]
        if ends[1] > ends[0]:
            fill = CHOSEN if bar.chosen else BAR
            cv2.rectangle(canvas, (ends[0], y), (ends[1], y + height), fill, -1)
        if bar.mark is not None:
            at = round(start + (stop - start) * bar.mark)
            cv2.line(canvas, (at, y), (at, y + height), CHOSEN, 2)
        if not compact:
            write(canvas, bar.text, (stop + 8, base), colour, size)


def fitted(picture: np.ndarray) -> np.ndarray:
    """The picture, scaled to the space that it has; small ones keep sharp pixels."""
    height, width = picture.shape[:2]
    factor = min((HEIGHT - 2 * MARGIN) / height, WIDEST_PICTURE / width)
    if factor >= 2:
        factor = int(factor)
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    kind = cv2.INTER_NEAREST if factor >= 2 else cv2.INTER_AREA
    return cv2.resize(np.ascontiguousarray(picture), size, interpolation=kind)


def bars(
    spec: EnvironmentSpec, policy: np.ndarray, action: np.ndarray, action_values: bool = False
) -> list[Bar]:
    """The policy's parameters, or each action's value, as rows to draw."""
    space = spec.action_space
    if isinstance(space, gymnasium.spaces.Box):
        return _gaussian_bars(space, policy, action)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        counts = [int(count) for count in space.nvec]
        parts = np.split(policy, np.cumsum(counts)[:-1])
        return [
            bar
            for index, (logits, chosen) in enumerate(zip(parts, action, strict=True))
            for bar in _categorical_bars(
                logits, [f"part {index}: {n}" for n in range(len(logits))], chosen
            )
        ]
    names = spec.action_meanings or [f"action {index}" for index in range(len(policy))]
    if action_values:
        return _value_bars(policy, list(names), action)
    return _categorical_bars(policy, list(names), action)


def _value_bars(values: np.ndarray, names: list[str], chosen: Any) -> list[Bar]:
    """The values between the lowest, an empty bar, and the highest, a full one."""
    allowed = values[values > FORBIDDEN / 2]
    low, high = scale([float(value) for value in allowed])
    return [
        Bar(
            name,
            0.0,
            float(np.clip((value - low) / (high - low), 0.0, 1.0)),
            f"{value:.3g}" if value > FORBIDDEN / 2 else "–",
            index == chosen,
        )
        for index, (name, value) in enumerate(zip(names, values, strict=True))
    ]


def _categorical_bars(logits: np.ndarray, names: list[str], chosen: Any) -> list[Bar]:
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    return [
        Bar(name, 0.0, float(chance), f"{100 * chance:.1f}%", index == chosen)
        for index, (name, chance) in enumerate(zip(names, probabilities, strict=True))
    ]


def _gaussian_bars(
    space: gymnasium.spaces.Box, policy: np.ndarray, action: np.ndarray
) -> list[Bar]:
    """The parameters are in units of the Box, see ``DiagonalGaussian``: -1 and 1 are its bounds."""
    means, log_stds = np.split(policy, 2)
    stds = np.exp(np.clip(log_stds, *LOG_STD_RANGE))
    low, high = space.low.ravel(), space.high.ravel()
    bounded = (np.abs(low) < WIDEST_BOUNDS) & (np.abs(high) < WIDEST_BOUNDS) & (low < high)
    low, high = np.where(bounded, low, -1), np.where(bounded, high, 1)
    taken = (action.ravel() - low) / (high - low)

    def position(relative: float) -> float:
        return float(np.clip((relative + 1) / 2, 0, 1))

    return [
        Bar(
            f"action {index}",
            position(mean - std),
            position(mean + std),
            f"{act:.2f}",
            False,
            float(np.clip(mark, 0, 1)),
        )
        for index, (mean, std, act, mark) in enumerate(
            zip(means, stds, action.ravel(), taken, strict=True)
        )
    ]


def readable(number: float) -> str:
    """Whole numbers without decimals, others with two."""
    return f"{number:,.0f}" if number.is_integer() else f"{number:,.2f}"


def scale(values: list[float]) -> tuple[float, float]:
    """The ends of an axis that fits the values."""
    low, high = min(values), max(values)
    if high - low < 1e-3:
        return low - 0.5, high + 0.5
    return low, high


FINE_BITS = 4


def fine(points: np.ndarray) -> np.ndarray:
    """Points in OpenCV's fixed-point format, with fractions of pixels."""
    return np.round(points * 2**FINE_BITS).astype(np.int32)


def dot(canvas: np.ndarray, point: np.ndarray, radius: int, colour: Colour) -> None:
    """A filled circle with smooth edges."""
    x, y = (int(v) for v in fine(point))
    cv2.circle(canvas, (x, y), radius << FINE_BITS, colour, -1, cv2.LINE_AA, FINE_BITS)


_FONT = cv2.FontFace("sans")


def write(
    canvas: np.ndarray,
    text: str,
    left_base: tuple[int, int],
    colour: Colour,
    size: int,
    weight: int = 400,
    width: int = 10_000,
) -> None:
    """Text, cut where it would be wider than ``width``."""
    while len(text) > 1 and _width(text, size, weight) > width:
        text = text.removesuffix("…")[:-1] + "…"
    cv2.putText(canvas, text, left_base, colour, _FONT, size, weight)


def _width(text: str, size: int, weight: int) -> int:
    return cv2.getTextSize((10_000, 100), text, (0, 0), _FONT, size, weight)[2]
