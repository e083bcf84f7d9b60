"""A page as a Gymnasium environment."""

import base64
import contextlib
import json
import math
import sys
import time
from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces

from environments.browser.chromium import (
    ANSWERS_WITHIN_S,
    ChromiumLost,
    ChromiumUnready,
    Command,
    PageLeft,
    Tab,
)
from environments.browser.inputs import Inputs
from environments.browser.page import REAL, VIRTUAL, Page
from environments.realtime.actions import Action
from environments.view import FRAMES_OF_MOTION
from user_error import UserError

_PASSED = "Emulation.virtualTimeBudgetExpired"
_FRAME = "Page.screencastFrame"
# The page that is played is marked, so that another one, to which a link or a form leads, is known.
_MARKS, _IS_MARKED = "(window.impalaPlays = true)", "window.impalaPlays"
# Starts of a browser without so many steps in between.
MOST_STARTS, STEPS_FORGIVE = 4, 1000
_LOADING_MS = 20
_TASKS_A_TICK = 50
_SHOWS_WITHIN_S = 0.25
_A_FRAME_MS = 20
# An action in real time that comes so much later than it should does not answer what was seen.
MOST_LATE_S = 0.1


class BrowserLevel(gymnasium.Env):
    """One tab of one browser; an action is a change of keys, or a click."""

    def __init__(self, page: Page, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 1000 / page.step_ms}
        self._page = page
        self.action_space = spaces.Discrete(len(page.actions))
        self.desktop_actions = page.actions  # on a desktop, steps take any other one, too
        self.goes_on_by_itself = page.time == REAL
        is_seen_moving = page.time == REAL and not page.observe
        self.usual_frame_stack = FRAMES_OF_MOTION if is_seen_moving else 1
        self.most_fps = math.inf if page.time == VIRTUAL else 1000 / page.step_ms  # and there
        self._starts, self._steps = 1, 0  # of the browser, and steps since the last one
        self._left_alone = False  # since the last time that it was asked
        self._late_s = 0.0  # of the newest step
        try:
            self._tab = self._opened()
            self.observation_space: spaces.Box = self._first_space()
        except ChromiumUnready as error:
            raise UserError(f"{error}.") from None
        except ChromiumLost as error:  # such as by a script that never ends
            raise UserError(f"{page.url}: {error}.") from None

    def _opened(self) -> Tab:
        """A new browser, in which nothing is pressed or shown."""
        self._inputs = Inputs()
        self._shot: dict[str, Any] = {}
        self._ahead_ms = 0  # of where steps have brought the page's clock
        self._due = 0.0  # when the newest action's time is over, of a page that goes on
        page = self._page
        tab = Tab(page.width, page.height, page.whole_browser, page.time == VIRTUAL)
        tab.listen_to = {_PASSED if page.time == VIRTUAL else _FRAME}
        return tab

    def _first_space(self) -> spaces.Box:
        """Loads the page; returns the space of what there is to observe."""
        try:
            self._load()
            return self._space()
        except BaseException:
            self._tab.close()
            raise

    def _space(self) -> spaces.Box:
        page = self._page
        if not page.observe:
            return spaces.Box(0, 255, (page.height, page.width, 3), np.uint8)
        numbers = self._numbers(self._tab.evaluate(page.observe))
        return spaces.Box(-np.inf, np.inf, (len(numbers),), np.float32)

    def _numbers(self, seen: Any, count: int | None = None) -> np.ndarray:
        """What there is to observe instead of the picture: so many numbers, if it is known."""
        right = isinstance(seen, list) and seen and all(map(_is_number, seen))
        if not right or (count and len(seen) != count):
            raise UserError(
                f"{self._page.url}: observe ({self._page.observe}) is {json.dumps(seen)[:80]}; "
                f"expected a list of {f'{count} numbers, as at first' if count else 'numbers'}."
            )
        return np.asarray(seen, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        while True:
            try:
                return self._begin(seed), {}
            except ChromiumLost as error:
                self._open_again(error)

    def _open_again(self, error: ChromiumLost) -> None:
        """Another browser in place of one that has ended, does not answer or has failed."""
        while self._starts < MOST_STARTS:
            print(f"{self._page.url}: {error}; it is started again.", file=sys.stderr, flush=True)
            self._starts, self._steps = self._starts + 1, 0
            try:
                opened = self._opened()
            except ChromiumLost as again:
                error = again
                continue
            lost, self._tab = self._tab, opened
            lost.close()
            return
        raise ChromiumLost(f"{error}, after {MOST_STARTS} starts") from None

    def _begin(self, seed: int | None) -> np.ndarray:
        """Begins an episode; returns its first observation."""
        self._enter(Action())
        if not (self._page.reset and self._tab.evaluate_unless_left(_IS_MARKED)):
            self._load()
        if seed is not None and self._tab.evaluate("typeof Math.seedrandom === 'function'"):
            self._tab.evaluate(f"void Math.seedrandom('{seed}')")
        if self._page.reset:
            self._tab.evaluate_unless_left(f"void ({self._page.reset})")
        self._pass()
        self._score, over, self._seen = self._look_first()
        until = time.monotonic() + ANSWERS_WITHIN_S
        while over:  # a game may take a while to begin anew
            if time.monotonic() > until:
                raise UserError(
                    f"{self._page.url}: still over {ANSWERS_WITHIN_S:g} s after a reset; see end "
                    f"({self._page.end}) and reset in its description."
                )
            self._pass()
            self._score, over, self._seen = self._look_first()
        return self._seen

    def step(self, action: Any) -> Any:
        chosen = action if isinstance(action, Action) else self._page.actions[int(action)]
        self._steps += 1
        if self._page.time == REAL and self._is_late():
            self._left_alone = True
        if self._steps == STEPS_FORGIVE:
            self._starts = 1
        try:
            self._enter(chosen)
            self._pass()
            found = self._look(_IS_MARKED) or self._look_elsewhere()
        except ChromiumLost as error:
            self._open_again(error)
            found = None
        if found is None:  # a link led to a page of another kind, or the browser was lost
            return self._seen, 0.0, False, True, {}
        before = self._score
        self._score, over, self._seen = found
        return self._seen, self._score - before, over, False, {}

    def _is_late(self) -> bool:
        """Whether nobody has acted for long. One who always takes so long has not been away."""
        before, self._late_s = self._late_s, time.monotonic() - self._due
        return self._late_s > max(MOST_LATE_S, self._page.step_ms / 1000, 2 * before)

    def was_left_alone(self) -> bool:
        """Whether it had gone on by itself for long before a step since the last call."""
        was, self._left_alone = self._left_alone, False
        return was

    def render(self) -> Any:
        return self._picture()

    def close(self) -> None:
        self._tab.close()

    def _load(self) -> None:
        page, tab = self._page, self._tab
        tab.open(page.url, page.ready, self._pause)
        if page.time == VIRTUAL:
            self._advance(_LOADING_MS)  # it stops after that
        else:
            # That of the page before, if there was one, is not started twice.
            tab.call("Page.stopScreencast")
            tab.events.clear()
            self._shot = {}
            tab.call("Page.startScreencast", format="png")
        tab.evaluate_unless_left(_MARKS)

    def _pause(self) -> None:
        """Lets a page load for a while."""
        if self._page.time == VIRTUAL:
            self._advance(_LOADING_MS)
        else:
            time.sleep(_LOADING_MS / 1000)

    def _pass(self) -> None:
        """Lets the time of an action pass in the page."""
        if self._page.time == VIRTUAL:
            milliseconds = max(1, self._page.step_ms - self._ahead_ms)
            self._ahead_ms -= self._page.step_ms - milliseconds
            self._advance(milliseconds)
        else:
            # What lies between two steps is part of the action's time, up to a half.
            action_s = self._page.step_ms / 1000
            self._due = max(self._due + action_s, time.monotonic() + action_s / 2)
            self._watch(self._due)

    def _advance(self, milliseconds: int) -> None:
        self._tab.events.clear()
        self._tab.call(
            "Emulation.setVirtualTimePolicy",
            policy="advance",
            budget=milliseconds,
            # Animations that draw as fast as they can would stop the clock for ever.
            maxVirtualTimeTaskStarvationCount=_TASKS_A_TICK,
        )
        self._tab.wait_for_event()

    def _watch(self, until: float) -> None:
        """Keeps the newest picture of a page that goes on, until then."""
        with contextlib.suppress(TimeoutError):
            while True:
                for frame in self._tab.events:
                    self._shot = frame["params"]
                    number = self._shot["sessionId"]
                    self._tab.send([("Page.screencastFrameAck", {"sessionId": number})])
                self._tab.events.clear()
                self._tab.read(until, self._page.step_ms / 1000)

    def _look_first(self) -> tuple[float, bool, np.ndarray]:
        """The same of whatever page a reset has led to, which is marked."""
        found = self._look(_IS_MARKED)
        if found is None:
            self._tab.wait_until(self._page.ready, self._pause, self._page.url)
            found = self._look(_MARKS)
        if found is None:
            raise PageLeft(f"{self._page.url} is left within its reset")
        return found

    def _look_elsewhere(self) -> tuple[float, bool, np.ndarray] | None:
        """The same of a page to which a link has led; None if it has no such score and end.

        It is not marked, so that a reset loads the level's own page again.
        """
        with contextlib.suppress(UserError, ChromiumUnready):
            self._tab.wait_until("true", self._pause, self._page.url)
            return self._look("true")
        return None

    def _look(self, guard: str) -> tuple[float, bool, np.ndarray] | None:
        """The score, whether it is over, and the observation.

        None if the guard is false, or the page is just being left.
        """
        page = self._page
        seen = page.observe or "0"
        script = f"[Number({page.score}), Boolean({page.end}), {seen}]"
        found = self._tab.evaluate_unless_left(f"{guard} ? {script} : null")
        if found is None:
            return None
        score, over, numbers = found
        if score is None:  # as JSON has what is not a number
            raise UserError(f"{page.url}: its score ({page.score}) is not a number.")
        if page.observe:
            return score, over, self._numbers(numbers, *self.observation_space.shape)
        with contextlib.suppress(PageLeft):
            return score, over, self._picture()
        return None

    def _picture(self) -> np.ndarray:
        """What the page shows, uint8 [height, width, 3]."""
        # A page that stands still has no newest frame.
        shot = self._shot or self._shoot()
        data = np.frombuffer(base64.b64decode(shot["data"]), np.uint8)
        picture = cv2.imdecode(data, cv2.IMREAD_COLOR)
        assert picture is not None
        return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)

    def _enter(self, action: Action) -> None:
        """Makes keys and pointer those of an action."""
        # While something is dragged, a page may need its clock to answer; it gets it next.
        within_s = _SHOWS_WITHIN_S if self._page.time == VIRTUAL else ANSWERS_WITHIN_S
        with contextlib.suppress(TimeoutError, PageLeft):
            self._tab.results(list(self._inputs.changes(action)), within_s)

    def _shoot(self) -> dict[str, Any]:
        """A screenshot, for which a page in which something is dragged may need its clock, too."""
        if self._page.time != VIRTUAL:
            return self._tab.results([_SHOT])[0]
        until = time.monotonic() + ANSWERS_WITHIN_S
        while True:
            try:
                return self._tab.results([_SHOT], _SHOWS_WITHIN_S)[0]
            except TimeoutError:
                if time.monotonic() > until:
                    raise
            self._advance(_A_FRAME_MS)
            self._ahead_ms += _A_FRAME_MS


_SHOT: Command = ("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})


def _is_number(one: Any) -> bool:
    return isinstance(one, (int, float)) and not isinstance(one, bool)
