"""A real browser without a window: headless Chromium, spoken to over a pipe.

Chromium's own protocol needs no driver and no further package: JSON messages, each ended by a
zero byte, on its file descriptors 3 and 4.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ANSWERS_WITHIN_S = 60.0
FLAGS = (
    "--headless",
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PHONE, DESKTOP = (390, 844), (1280, 900)


def find() -> str | None:
    """Chromium's program; None where there is none."""
    return next((name for name in NAMES if shutil.which(name)), None)


class Browser:
    """One tab; ended with the ``with`` block."""

    def __init__(self, size: Sequence[int] = DESKTOP):
        program = find()
        assert program, "there is no Chromium here"
        self._home = tempfile.TemporaryDirectory(
            prefix="impala-browser", ignore_cleanup_errors=True
        )
        their_in, self._to = os.pipe()
        self._from, their_out = os.pipe()
        command = [program, *FLAGS, f"--user-data-dir={self._home.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{their_in} 4>&{their_out}', "--", *command],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self.requests: list[str] = []  # addresses that pages have asked for
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self._call("Page.enable")
        self._call("Network.enable")
        self.resize(size)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        try:
            self._call("Browser.close")
            self._process.wait(ANSWERS_WITHIN_S)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._to)
            os.close(self._from)
            self._home.cleanup()

    def resize(self, size: Sequence[int]) -> None:
        """The window, in pixels."""
        width, height = size
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def open(self, url: str) -> None:
        """Loads a page."""
        answer = self._call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = ANSWERS_WITHIN_S) -> Any:
        """Waits until the expression is true; returns its value."""
        until = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            text = self.evaluate("document.body ? document.body.innerText : ''")
            assert time.monotonic() < until, f"never: {expression}\n{text}"
            time.sleep(0.2)
        return value

    def press(self, key: str) -> None:
        """A key of the keyboard, down and up, as the browser itself gets it."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self._call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """What the window shows, or all of the page."""
        clip = {}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            area = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            clip = {"clip": area, "captureBeyondViewport": True}
        answer = self._call("Page.captureScreenshot", format="png", **clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + ANSWERS_WITHIN_S
        while b"\0" not in self._buffer:
            left = until - time.monotonic()
            ready = select.select([self._from], [], [], max(0.0, left))[0]
            assert ready, "the browser does not answer"
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
