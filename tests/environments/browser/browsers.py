"""Pages to play, their levels as they are, and the browsers that these have started."""

import contextlib
import time
from collections.abc import Callable

import psutil

from environments import names
from environments.browser.level import BrowserLevel
from environments.names import find
from environments.python.levels import make_undressed
from environments.view import View

PAGE = """<body style="margin: 0; background: black"><script>
let ticks = 0, presses = 0, clicks = 0;
setInterval(() => { ticks += 1; }, 10);
addEventListener("keydown", event => { presses += event.code === "Space"; });
addEventListener("mousedown", event => { clicks += event.clientX === 30; });
addEventListener("keyup", () => { document.body.style.background = "white"; });
</script></body>"""
DESK = """<body style="margin: 0"><input style="width: 60px; height: 20px"><script>
const field = document.querySelector("input");
let dragged = 0, entered = 0, from = null;
addEventListener("mousedown", event => { from = event.clientX; });
addEventListener("mousemove", event => { dragged += (event.buttons === 1) && from !== null; });
addEventListener("mouseup", event => {
  dragged = from !== null && event.clientX - from === 40 ? 100 + dragged : 0; from = null; });
addEventListener("keydown", event => { entered += event.key === "Enter"; });
</script></body>"""
# Its immediate work never ends, as that of animations which draw as fast as they can.
BUSY = """<script>
let ticks = 0;
setInterval(() => { ticks += 1; }, 10);
const {port1, port2} = new MessageChannel();
port1.onmessage = () => port2.postMessage(0);
port2.postMessage(0);
</script>"""
DESCRIPTION = """
url: page.html
width: 60
height: 40
score: presses + 10 * clicks
end: presses >= 3
actions: [none, space, "click 30,20", tap space]
step_ms: 50
"""


def undressed(name: str) -> BrowserLevel:
    level = find(name)
    assert isinstance(level, names.BrowserLevel)
    made = make_undressed(level, name, View())
    assert isinstance(made, BrowserLevel)
    return made


def children() -> list[psutil.Process]:
    """The browsers of this process, with all that they have started."""
    started = psutil.Process().children(recursive=True)
    return [one for one in started if "chrom" in one.name()]


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
