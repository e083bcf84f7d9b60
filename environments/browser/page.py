"""The description of a page that is a level: where it is, what can be done, what counts."""

import importlib.util
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from checkout import setup_command
from environments import descriptions
from environments.names import DESCRIPTIONS
from environments.realtime import actions
from environments.realtime.actions import Action
from user_error import UserError, closest

MINIWOB = "miniwob/"
# From the query line down, and to the right of the page's edge, lies what tasks are about.
_TASK_TOP, _TASK_SIZE, _CELL = 50, 160, 20
VIRTUAL, REAL = "virtual", "real"
_KINDS = {str: "text, in quotes", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True)
class Page:
    """A page as a level; scripts are expressions of JavaScript, evaluated in it."""

    url: str  # or the path of a file, from the description's own folder
    score: str  # a number; rewards are what it changes by
    end: str  # whether the episode is over
    actions: tuple[Action, ...]
    reset: str = ""  # begins an episode; without it, the page is loaded again
    ready: str = "true"  # whether the page can be played
    observe: str = ""  # a list of numbers to see instead of the picture
    width: int = 160
    height: int = 210
    step_ms: int = 50  # that an action lasts
    time: str = VIRTUAL  # of the page: stops between steps, or goes on
    whole_browser: bool = False  # pages of Chromium's own need all of it


DINO = Page(
    url="chrome://dino",
    ready="typeof Runner === 'function' && !!Runner.getInstance()",
    score="Math.floor(Runner.getInstance().distanceRan * 0.025)",
    end="Runner.getInstance().crashed",
    reset=(
        "(() => { const game = Runner.getInstance(); if (game.playing) game.gameOver(); "
        "if (game.crashed) game.restart(); else { for (const kind of ['keydown', 'keyup']) "
        "document.dispatchEvent(new KeyboardEvent(kind, {keyCode: 32, code: 'Space', key: ' '})); "
        "} })()"
    ),
    actions=actions.parse(["none", "up", "down"], "dino"),
    width=600,
    height=150,
    step_ms=50,
    time=REAL,
    whole_browser=True,
)


def find(name: str) -> Page:
    """The page of `browser:name`: dino, one of MiniWoB++, or a YAML file."""
    if name == "dino":
        return DINO
    if name.startswith(MINIWOB):
        return _miniwob(name.removeprefix(MINIWOB))
    if not name.endswith(DESCRIPTIONS):
        raise UserError(
            f"--level_name=browser:{name}: expected dino, {MINIWOB}TASK-v1 or a .yaml file that "
            "describes a page."
        )
    return read(name)


def read(path: str) -> Page:
    """The page that a file describes; a UserError names what is wrong with it."""
    told = f"--level_name=browser:{path}"
    given = descriptions.read(path, told)
    known = {field.name: field for field in fields(Page)}
    if not isinstance(given, dict):
        raise UserError(f"{told}: expected url, score, end and actions.")
    for key in given:
        if key not in known:
            raise UserError(f"{told}: there is no entry {key!r}. {closest(str(key), known)}")
    for key in ("url", "score", "end", "actions"):
        if key not in given:
            raise UserError(f"{told}: {key} is missing.")
    for key, value in given.items():
        wanted: Any = known[key].type
        # YAML reads false and 0 without quotes as no text, and Python true as a number.
        if key != "actions" and type(value) is not wanted:
            raise UserError(f"{told}: {key}: {value!r}: expected {_KINDS[wanted]}.")
    for key in ("width", "height", "step_ms"):
        if given.get(key, 1) <= 0:
            raise UserError(f"{told}: {key}: {given[key]!r}: expected a number above 0.")
    url = given["url"]
    if ":" not in url:
        url = (Path(path).parent / url).resolve().as_uri()
    if given.get("time", VIRTUAL) not in (VIRTUAL, REAL):
        raise UserError(f"{told}: time: {given['time']!r}: expected {VIRTUAL} or {REAL}.")
    size = (given.get("width", Page.width), given.get("height", Page.height))
    known_actions = actions.described(given["actions"], Path(path).parent, size, told)
    return Page(**{**given, "url": url, "actions": known_actions})


def _miniwob(task: str) -> Page:
    """A task of MiniWoB++: its own pages, clicked at, with its own reward and time limit."""
    package = importlib.util.find_spec("miniwob")  # not imported: it wants selenium
    if package is None or package.origin is None:
        raise UserError(f"the pages of MiniWoB++ are not here: run {setup_command('browser')}.")
    folder = Path(package.origin).parent / "html" / "miniwob"
    known = {f"{file.stem}-v1": file for file in folder.glob("*.html")}
    if task not in known:
        raise UserError(f"--level_name: MiniWoB++ has no task {task!r}. {closest(task, known)}")
    cells = range(_CELL // 2, _TASK_SIZE, _CELL)
    clicks = (Action(click=(x, _TASK_TOP + y)) for y in cells for x in cells)
    return Page(
        url=known[task].as_uri(),
        ready="typeof core === 'object' && core.cover_div !== null && WOB_TASK_READY",
        score="WOB_REWARD_GLOBAL",
        end="WOB_DONE_GLOBAL",
        reset="core.startEpisodeReal()",
        actions=(Action(), *clicks),
        step_ms=200,
    )
