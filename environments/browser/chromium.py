"""A tab of Chromium, driven over the DevTools protocol through a pipe: nothing listens."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from environments import held_folders
from user_error import EndedOutside, UserError

PREFIX = "impala-tab-"  # of the folders with profiles
WHOLE = ("chromium", "google-chrome")
PROGRAMS = ("chromium-headless-shell", *WHOLE)
# A picture waits for frames; with these, for no longer than it takes to make them.
UNLIMITED = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
ANSWERS_WITHIN_S = 30.0
_DIALOG, _CRASHED = "Page.javascriptDialogOpening", "Inspector.targetCrashed"
_OPENED = "Target.targetCreated"
# What commands are answered with whose page goes while they are carried out.
_LEFT = ("Inspected target navigated or closed", "Not attached to an active page")
FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-first-run",
    "--remote-debugging-pipe",
)

Command = tuple[str, dict[str, Any]]


class ChromiumLost(EndedOutside):
    """The browser is gone, with what it said last, or answers with an error of its own."""


class ChromiumSilent(ChromiumLost, TimeoutError):
    """The browser is there, but does not answer in time."""


class PageLeft(ChromiumLost):
    """The page is left for another one, and so has no answer."""


class ChromiumUnready(ChromiumLost):
    """The browser does not start, or gets no page: at first that is a mistake of the user."""


def _program(names: Sequence[str]) -> str:
    """The first of these programs that is here."""
    if found := next(filter(None, map(shutil.which, names)), None):
        return found
    raise UserError(
        f"there is no {names[0]} here: install Debian's package of that name, as bin/setup "
        "--extra=browser does."
    )


class Tab:
    """One page of one browser, which ends with `close` or with this process."""

    def __init__(self, width: int, height: int, whole: bool, unlimited: bool) -> None:
        """`whole`: the browser with all pages of its own, which starts more slowly.

        `unlimited`: as many frames a second as can be made.
        """
        program = _program(WHOLE if whole else PROGRAMS)
        try:
            self._home, self._lock = held_folders.make_new(PREFIX)
            self._start([program, *FLAGS, *(UNLIMITED if unlimited else ())])
        except OSError as error:  # such as a disk that is full
            raise ChromiumUnready(f"{program} does not start: {error}") from None
        self._buffer, self._number, self._session = bytearray(), 0, ""
        self.events: list[dict[str, Any]] = []  # of the kinds in `listen_to`
        self.listen_to: set[str] = set()
        try:
            self._begin(width, height)
        except ChromiumLost as error:
            self.close()
            raise ChromiumUnready(f"{program} does not start: {error}") from None
        except BaseException:
            self.close()
            raise

    def _start(self, program: list[str]) -> None:
        """Starts the browser, with pipes to it and from it."""
        theirs, self._to = os.pipe()
        self._from, ours = os.pipe()
        root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses root otherwise
        command = [*program, *root, f"--user-data-dir={self._home}", "about:blank"]
        # The protocol is spoken on its descriptors 3 and 4.
        shell = f'exec "$@" 3<&{theirs} 4>&{ours}'
        self._said = self._home / "said.txt"
        try:
            with open(self._said, "wb") as said:
                self._process = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", "--", "bash", "-c", shell, "--", *command],
                    pass_fds=(theirs, ours),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    process_group=0,
                )
        except OSError:
            for one in (self._to, self._from, self._lock):
                os.close(one)
            held_folders.remove(self._home)
            raise
        finally:
            os.close(theirs)
            os.close(ours)

    def _begin(self, width: int, height: int) -> None:
        """Attaches to a new page of that size."""
        self.call("Browser.setDownloadBehavior", behavior="deny")  # into the user's own folder
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")
        self.call("Inspector.enable")  # tells of crashes
        self.call("Target.setDiscoverTargets", discover=True)
        # A drag of text or a link that leaves the page would wait for a desktop that is not there.
        self.call("Input.setInterceptDrags", enabled=True)
        size: dict[str, Any] = {"width": width, "height": height, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, **size)

    def open(self, url: str, ready: str, pause: Callable[[], None]) -> None:
        """Loads a page; calls `pause` until the expression `ready` is true."""
        try:
            failed = self.call("Page.navigate", url=url).get("errorText")
        except TimeoutError:
            told = f"{url} does not answer within {ANSWERS_WITHIN_S:g} s"
            raise ChromiumUnready(told) from None
        if failed and not url.startswith("chrome:"):  # these say so and come nevertheless
            raise ChromiumUnready(f"{url} cannot be loaded ({failed})")
        self.wait_until(ready, pause, url)

    def wait_until(self, ready: str, pause: Callable[[], None], url: str) -> None:
        """Calls `pause` until the page is there whole and the expression `ready` is true."""
        # What it throws may pass, as a page may make later what it names.
        complete = (
            "(() => { try { return document.readyState !== 'complete' ? null :"
            f" Boolean({ready}); }} catch (error) {{ return String(error); }} }})()"
        )
        until = time.monotonic() + ANSWERS_WITHIN_S
        while (found := self.evaluate_unless_left(complete)) is not True:
            if time.monotonic() > until:
                if found is None:
                    told = f"is not loaded whole within {ANSWERS_WITHIN_S:g} s"
                    raise ChromiumUnready(f"{url} {told}")
                thrown = f" ({' '.join(found.split())})" if found else ""
                raise ChromiumUnready(f"{url} never had {ready}{thrown}")
            pause()

    def evaluate_unless_left(self, expression: str) -> Any:
        """The value of an expression; None where the page is just being left."""
        with contextlib.suppress(PageLeft):
            return self.evaluate(expression)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            told = details.get("exception", {}).get("description") or details["text"]
            raise UserError(f"the page cannot evaluate {expression!r}: {told.splitlines()[0]}.")
        return answer["result"].get("value")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command; returns its result."""
        return self.results([(method, parameters)])[0]

    def results(
        self, commands: list[Command], within_s: float = ANSWERS_WITHIN_S
    ) -> list[dict[str, Any]]:
        """Sends commands at once; returns their results, in order, or raises `ChromiumLost`."""
        first = self._number + 1
        self.send(commands)
        last = self._number  # answers to dialogs are commands, too
        found: dict[int, dict[str, Any]] = {}
        until = time.monotonic() + within_s
        while len(found) < len(commands):
            message = self.read(until, within_s)
            if first <= message.get("id", 0) <= last:
                if "error" in message:
                    told = message["error"]["message"]
                    kind = PageLeft if told in _LEFT else ChromiumLost
                    raise kind(f"Chromium has failed ({told})")
                found[message["id"]] = message["result"]
        return [found[number] for number in range(first, last + 1)]

    def send(self, commands: list[Command]) -> None:
        """Sends commands, whose results nobody waits for."""
        text = b""
        for method, parameters in commands:
            self._number += 1
            message = {"id": self._number, "method": method, "params": parameters}
            if self._session:
                message["sessionId"] = self._session
            text += json.dumps(message).encode() + b"\0"
        try:
            os.write(self._to, text)
        except BrokenPipeError:
            raise ChromiumLost(self._last_words()) from None

    def wait_for_event(self) -> None:
        """Waits until one of `listen_to` is in `events`."""
        until = time.monotonic() + ANSWERS_WITHIN_S
        while not self.events:
            self.read(until, ANSWERS_WITHIN_S)

    def read(self, until: float, within_s: float) -> dict[str, Any]:
        """The next message, or `ChromiumSilent` at a time, which is the end of `within_s`.

        One of `listen_to` is kept in `events`.
        """
        silent = ChromiumSilent(f"Chromium does not answer: nothing for {within_s:g} s")
        while (end := self._buffer.find(b"\0")) < 0:
            if not select.select([self._from], [], [], max(0.0, until - time.monotonic()))[0]:
                raise silent
            data = os.read(self._from, 1 << 20)
            if not data:
                raise ChromiumLost(self._last_words())
            self._buffer += data
        message = json.loads(bytes(self._buffer[:end]))
        del self._buffer[: end + 1]
        kind = message.get("method")
        if kind in self.listen_to:
            self.events.append(message)
        elif kind:
            self._see_to(kind, message["params"])
            if time.monotonic() > until:  # such as a page that asks again and again
                raise silent
        return message

    def _see_to(self, kind: str, told: dict[str, Any]) -> None:
        """Does what a person at the browser would."""
        if kind == _CRASHED:
            raise ChromiumLost("Chromium has failed (its page has crashed)")
        if kind == _DIALOG:  # the page waits
            text = told.get("defaultPrompt", "")
            self.send([("Page.handleJavaScriptDialog", {"accept": True, "promptText": text})])
        if kind == _OPENED and "openerId" in told["targetInfo"]:
            # A further window would hide the page, and stay.
            self.send([("Target.closeTarget", {"targetId": told["targetInfo"]["targetId"]})])

    def _last_words(self) -> str:
        """What the browser said before it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # or else its last line may be missing
        lines = self._said.read_text("utf-8", "replace").strip().splitlines()
        return f"Chromium has ended ({lines[-1].strip()[:300] if lines else 'without a word'})"

    def close(self) -> None:
        """Ends the browser."""
        os.close(self._to)
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            # One that is stopped has children that are, too, and do not see its end.
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._from)
        held_folders.remove(self._home)
        os.close(self._lock)
