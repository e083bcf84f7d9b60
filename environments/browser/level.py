"""A page as a Gymnasium environment."""

import base64
import contextlib
import json
import time
from collections.abc import Collection, Iterator
from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces

from environments.browser.chromium import ANSWERS_WITHIN_S, Command, Tab
from environments.browser.page import VIRTUAL, Page
from environments.realtime.actions import Action
from user_error import UserError

# What DevTools calls keys: key, code, number.
_KEYS = {
    "left": ("ArrowLeft", "ArrowLeft", 37),
    "up": ("ArrowUp", "ArrowUp", 38),
    "right": ("ArrowRight", "ArrowRight", 39),
    "down": ("ArrowDown", "ArrowDown", 40),
    "space": (" ", "Space", 32),
    "return": ("Enter", "Enter", 13),
    "escape": ("Escape", "Escape", 27),
    "tab": ("Tab", "Tab", 9),
    "backspace": ("Backspace", "Backspace", 8),
    "shift": ("Shift", "ShiftLeft", 16),
    "ctrl": ("Control", "ControlLeft", 17),
    "alt": ("Alt", "AltLeft", 18),
}
_WRITTEN = {"Enter": "\r"}  # what keys write that have a name
_MODIFIERS = {"alt": 1, "ctrl": 2, "shift": 8}
_PASSED = "Emulation.virtualTimeBudgetExpired"
_FRAME = "Page.screencastFrame"
_LOADING_MS = 20
_TASKS_A_TICK = 50
_SHOWS_WITHIN_S = 0.25
_A_FRAME_MS = 20


class BrowserLevel(gymnasium.Env):
    """One tab of one browser; an action is a change of keys, or a click."""

    def __init__(self, page: Page, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 1000 / page.step_ms}
        self._page = page
        self.action_space = spaces.Discrete(len(page.actions))
        self.desktop_actions = page.actions  # on a desktop, steps take any other one, too
        self._tab = Tab(page.width, page.height, page.whole_browser, page.time == VIRTUAL)
        self._held: frozenset[str] = frozenset()
        self._dragged: tuple[int, int] | None = None
        self._shot: dict[str, Any] = {}
        self._ahead_ms = 0  # of where steps have brought the page's clock
        try:
            self._load()
            self.observation_space = self._space()
        except BaseException:
            self._tab.close()
            raise

    def _space(self) -> spaces.Box:
        page = self._page
        if not page.observe:
            return spaces.Box(0, 255, (page.height, page.width, 3), np.uint8)
        seen = self._tab.evaluate(page.observe)
        if not (isinstance(seen, list) and seen and all(map(_is_number, seen))):
            raise UserError(
                f"{page.url}: observe ({page.observe}) is {json.dumps(seen)[:80]}; expected a "
                "list of numbers."
            )
        return spaces.Box(-np.inf, np.inf, (len(seen),), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._enter(Action())
        if not self._page.reset:
            self._load()
        if seed is not None and self._tab.evaluate("typeof Math.seedrandom === 'function'"):
            self._tab.evaluate(f"void Math.seedrandom('{seed}')")
        if self._page.reset:
            self._tab.evaluate(f"void ({self._page.reset})")
        self._pass()
        self._score, over, observation = self._look()
        until = time.monotonic() + ANSWERS_WITHIN_S
        while over:  # a game may take a while to begin anew
            if time.monotonic() > until:
                raise UserError(
                    f"{self._page.url}: still over {ANSWERS_WITHIN_S:g} s after a reset; see end "
                    f"({self._page.end}) and reset in its description."
                )
            self._pass()
            self._score, over, observation = self._look()
        return observation, {}

    def step(self, action: Any) -> Any:
        chosen = action if isinstance(action, Action) else self._page.actions[int(action)]
        self._enter(chosen)
        self._pass()
        before = self._score
        self._score, over, observation = self._look()
        return observation, self._score - before, over, False, {}

    def render(self) -> Any:
        return self._picture()

    def close(self) -> None:
        self._tab.close()

    def _load(self) -> None:
        page, tab = self._page, self._tab
        if page.time == VIRTUAL:
            tab.listen_to = {_PASSED}
            tab.open(page.url, page.ready, lambda: self._advance(_LOADING_MS))
            self._advance(_LOADING_MS)  # it stops after that
        else:
            tab.listen_to = {_FRAME}
            tab.open(page.url, page.ready, lambda: time.sleep(_LOADING_MS / 1000))
            # That of the page before, if there was one, is not started twice.
            tab.call("Page.stopScreencast")
            tab.events.clear()
            self._shot = {}
            tab.call("Page.startScreencast", format="png")

    def _pass(self) -> None:
        """Lets the time of an action pass in the page."""
        if self._page.time == VIRTUAL:
            milliseconds = max(1, self._page.step_ms - self._ahead_ms)
            self._ahead_ms -= self._page.step_ms - milliseconds
            self._advance(milliseconds)
        else:
            self._watch(time.monotonic() + self._page.step_ms / 1000)

    def _advance(self, milliseconds: int) -> None:
        self._tab.events.clear()
        self._tab.call(
            "Emulation.setVirtualTimePolicy",
            policy="advance",
            budget=milliseconds,
            # Animations that draw as fast as they can would stop the clock for ever.
            maxVirtualTimeTaskStarvationCount=_TASKS_A_TICK,
        )
        while not self._tab.events:
            self._tab.read()

    def _watch(self, until: float) -> None:
        """Keeps the newest picture of a page that goes on, until then."""
        with contextlib.suppress(TimeoutError):
            while True:
                for frame in self._tab.events:
                    self._shot = frame["params"]
                    number = self._shot["sessionId"]
                    self._tab.send([("Page.screencastFrameAck", {"sessionId": number})])
                self._tab.events.clear()
                self._tab.read(until - time.monotonic())

    def _look(self) -> tuple[float, bool, np.ndarray]:
        """The score, whether it is over, and the observation."""
        page = self._page
        seen = page.observe or "0"
        script = f"[Number({page.score}), Boolean({page.end}), {seen}]"
        score, over, numbers = self._tab.evaluate(script)
        if score is None:  # as JSON has what is not a number
            raise UserError(f"{page.url}: its score ({page.score}) is not a number.")
        if page.observe:
            return score, over, np.asarray(numbers, np.float32)
        return score, over, self._picture()

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
        with contextlib.suppress(TimeoutError):
            self._tab.results(list(self._changes(action)), within_s)

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

    def _changes(self, action: Action) -> Iterator[Command]:
        """The commands that make keys and pointer those of an action."""
        if self._dragged and not action.drag:
            yield _pointer("mouseReleased", self._dragged)
        for key in self._held - action.held:
            yield _key(key, "keyUp", action.held)
        for key in action.held - self._held:
            yield _key(key, "keyDown", action.held)
        self._held = action.held
        for index, key in enumerate(action.tapped):
            yield _key(key, "keyDown", {*action.held, *action.tapped[:index]})
        for index, key in reversed(list(enumerate(action.tapped))):
            yield _key(key, "keyUp", {*action.held, *action.tapped[:index]})
        if place := action.click or action.drag:
            goes_on = bool(action.drag and self._dragged)
            yield _pointer("mouseMoved", place, pressed=goes_on)
            if not goes_on:
                yield _pointer("mousePressed", place)
            if action.click:
                yield _pointer("mouseReleased", place)
        self._dragged = action.drag


_SHOT: Command = ("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})


def _pointer(kind: str, place: tuple[int, int], pressed: bool = True) -> Command:
    """Moves, presses or releases the pointer; `pressed`: while its button is down."""
    button = "left" if pressed else "none"
    where = {"x": place[0], "y": place[1], "button": button, "buttons": int(pressed)}
    return "Input.dispatchMouseEvent", {"type": kind, **where, "clickCount": 1}


def _key(name: str, kind: str, held: Collection[str]) -> Command:
    """Presses or releases a key while others are held."""
    kind_of_code = "Digit" if name.isdigit() else "Key"
    known = _KEYS.get(name)
    key, code, number = known or (name, f"{kind_of_code}{name.upper()}", ord(name.upper()))
    if "shift" in held and len(key) == 1:
        key = key.upper()
    writes = kind == "keyDown" and not {"ctrl", "alt"} & {*held}
    text = {"text": _WRITTEN.get(key, key)} if writes and len(_WRITTEN.get(key, key)) == 1 else {}
    names = {"key": key, "code": code, "windowsVirtualKeyCode": number}
    modifiers = sum(_MODIFIERS.get(one, 0) for one in held)
    return "Input.dispatchKeyEvent", {"type": kind, **names, **text, "modifiers": modifiers}


def _is_number(one: Any) -> bool:
    return isinstance(one, (int, float)) and not isinstance(one, bool)
