"""The connection to one remote: its newest picture, its messages, and the keys on their way."""

import asyncio
import collections
import contextlib
import math
import shlex
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from environments.realtime import messages, password, rfb, stamp
from environments.realtime.actions import Action
from environments.realtime.keys import POINTER, in_order
from environments.realtime.messages import Message, now_ms
from environments.realtime.rfb import LARGEST_DESKTOP, Rectangle, RfbClient

CONNECTS_WITHIN_S = 5.0
PING_EVERY_S = 2.0
PINGS_KEPT = 20
FIRST_PINGS, FIRST_EVERY_S = 4, 0.1
# Without an answer to so many pings for so long, nothing is heard of rewards any more.
MOST_UNANSWERED, ANSWERS_WITHIN_MS = 4, 10_000.0
# A message whose picture has not come by then is taken without it.
PICTURE_WITHIN_MS = 250.0
MOST = 100_000  # messages not taken


class Address(NamedTuple):
    """Where a remote listens."""

    host: str
    desktop: int
    rewarder: int

    def __str__(self) -> str:
        return f"{self.host}:{self.desktop}+{self.rewarder}"

    def look(self, password_file: str) -> str:
        """The command that shows the desktop, for a shell."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return shlex.join(["vncviewer", "-passwd", password_file, f"{host}::{self.desktop}"])


class Snapshot(NamedTuple):
    """The newest picture, and what happened since the last snapshot."""

    picture: np.ndarray  # uint8 [height, width, 3]
    before: np.ndarray  # the picture before that one
    drawn: float | None  # milliseconds of the remote's clock
    received: float  # milliseconds of this one
    pressed: float | None  # when the first key was that no change of the picture has followed
    updates: int
    action_lags: list[float]  # milliseconds


class Link:
    """Lives in the thread of an event loop; what is for another thread says so."""

    def __init__(self, address: Address, lag_ms: float) -> None:
        """``lag_ms`` is added to the way there and back, half of it each."""
        self.address = address
        self._loop = asyncio.get_running_loop()
        self._out, self._in = (Delay(self._loop, lag_ms / 2000) for _ in range(2))
        self._lock = threading.Lock()
        self._tasks: list[asyncio.Task] = []
        self._held: frozenset[str] = frozenset()
        self._dragged: tuple[int, int] | None = None
        self._sent: collections.deque[tuple[str, bool, float]] = collections.deque(maxlen=256)
        self._lags: list[float] = []
        self._received = 0.0
        self._drawn: float | None = None
        self._pressed: float | None = None
        self._updates = 0
        # Bounded, in case that nobody takes any for hours.
        self._messages: collections.deque[tuple[float, Message]] = collections.deque(maxlen=MOST)
        self._pings: collections.deque[tuple[float, float]] = collections.deque(maxlen=PINGS_KEPT)
        self._asked: dict[int, float] = {}
        self.described: dict[str, Any] = {}
        self.has_played = False  # whether an episode has run while it was connected

    async def connect(self, secret: str, packed: bool = False) -> None:
        """Connects to desktop and rewarder; ``Refused``, ``OSError`` or ``ValueError``.

        ``packed``: its pictures come packed, as networks need it.
        """
        # Late: only worlds in real time need it.
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        host, desktop, rewarder = self.address
        async with asyncio.timeout(CONNECTS_WITHIN_S):
            reader, writer = await asyncio.open_connection(host, desktop, limit=1 << 22)
            self._desktop = RfbClient(reader, writer, packed)
            await self._desktop.greet(secret)
            if max(self._desktop.width, self._desktop.height) > LARGEST_DESKTOP:
                raise rfb.Refused(f"its desktop is wider or higher than {LARGEST_DESKTOP} pixels")
            self._picture = np.zeros([self._desktop.height, self._desktop.width, 3], np.uint8)
            self._before = self._picture.copy()
            uri = f"ws://{f'[{host}]' if ':' in host else host}:{rewarder}"
            try:
                self._rewarder = await connect(
                    uri, ping_interval=None, compression=None, proxy=None
                )
                await self._prove(secret)
            except WebSocketException as error:
                raise ConnectionError(f"the rewarder is not there ({error})") from None
        if self.described.get("desktop", self._desktop.name) != self._desktop.name:
            raise rfb.Refused(f"{self.address} are the desktop and the rewarder of two remotes")
        self._received = now_ms()

    async def run(self) -> str:
        """Exchanges messages until the connection is lost; returns the reason."""
        work = (self._desktop.run(self._take_update), self._listen(), self._ping())
        tasks = [asyncio.create_task(one) for one in work]
        self._tasks += tasks  # beside what is being sent already
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for task in done if (error := task.exception())]
        return f"the connection was lost ({errors[0] if errors else 'it was closed'})"

    async def close(self) -> None:
        """Ends both connections."""
        for task in self._tasks:
            task.cancel()
        if hasattr(self, "_desktop"):
            self._desktop.close()
        if hasattr(self, "_rewarder"):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(1.0):
                    await self._rewarder.close()

    # For another thread.

    def take(self) -> Snapshot:
        """The newest picture; counts and lags begin anew."""
        width, height = self.described.get("picture", (1, 1))
        with self._lock:
            lags, self._lags = self._lags, []
            updates, self._updates = self._updates, 0
            newest, before = (one[:height, :width].copy() for one in (self._picture, self._before))
            return Snapshot(
                newest, before, self._drawn, self._received, self._pressed, updates, lags
            )

    def next_message(self, drawn: float | None) -> Message | None:
        """The first message, if it tells nothing that a picture of that time does not show."""
        if not self._messages:
            return None
        received, message = self._messages[0]
        at = message.body.get("at")
        if at is None or now_ms() - received > PICTURE_WITHIN_MS:
            return message
        return message if drawn is not None and stamp.since(drawn, float(at)) >= 0 else None

    def drop_message(self) -> None:
        """Forgets the first message."""
        self._messages.popleft()

    def drop_messages(self) -> str:
        """Forgets all messages; returns the newest episode that has begun among them, or ""."""
        newest = ""
        while self._messages:
            _, message = self._messages.popleft()
            begun = message.body.get("env_state") == messages.RUNNING
            newest = message.episode if begun else newest
        return newest

    def has_newer(self, episode: str) -> bool:
        """Whether a message that was not taken yet tells that another episode has begun."""
        return any(
            message.episode != episode and message.body.get("env_state") == messages.RUNNING
            for _, message in self._messages.copy()
        )

    def ask_reset(self, episode: str) -> None:
        """Asks for the end of an episode."""
        with self._lock:
            self._pressed = None
        message = Message(messages.RESET, episode=episode)
        self._loop.call_soon_threadsafe(self._out.call, self._tell, message)

    @property
    def skew(self) -> float:
        """How many milliseconds the remote's clock is ahead of this one."""
        return min(self._pings, default=(math.inf, math.nan))[1]

    @property
    def way_ms(self) -> float:
        """Half of the time that the fastest of the last messages took there and back.

        The lag that is added to the way there is part of it; those messages have none.
        """
        return min(self._pings, default=(math.nan, 0.0))[0] / 2 + 1000 * self._out.seconds

    # In the loop's thread.

    def release(self, keys: Iterable[str]) -> None:
        """Taps keys, so that none is down.

        Those of a connection whose end the desktop has not noticed yet would be for minutes.
        """
        for key in keys:
            self._desktop.key(key, True)
            self._desktop.key(key, False)

    def press(self, action: Action, sent_at: float) -> None:
        """Makes the keys and the pointer those of an action."""
        self._out.call(self._press, action, sent_at)

    def _press(self, action: Action, sent_at: float) -> None:
        with self._lock:
            if self._pressed is None and action != Action():
                self._pressed = now_ms()
        if self._dragged and not action.drag:
            self._desktop.pointer(*self._dragged, False)
        for key in self._held - action.held:
            self._key(key, False, sent_at)
        for key in in_order(action.held - self._held):
            self._key(key, True, sent_at)
        self._held = action.held
        for key in action.tapped:
            self._key(key, True, sent_at)
        for key in reversed(action.tapped):
            self._key(key, False, sent_at)
        if action.click:
            self._sent.append((POINTER, True, sent_at))
            for pressed in (False, True, False):
                self._desktop.pointer(*action.click, pressed)
        if action.drag:
            if not self._dragged:
                self._sent.append((POINTER, True, sent_at))
                self._desktop.pointer(*action.drag, False)
            self._desktop.pointer(*action.drag, True)
        self._dragged = action.drag

    def _key(self, key: str, down: bool, sent_at: float) -> None:
        self._sent.append((key, down, sent_at))
        self._desktop.key(key, down)

    def _tell(self, message: Message) -> None:
        task = self._loop.create_task(self._send(message))
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _send(self, message: Message) -> None:
        with contextlib.suppress(Exception):  # the reader sees that the connection is lost
            await self._rewarder.send(message.encoded())

    async def _prove(self, secret: str) -> None:
        asked = messages.decoded(await self._rewarder.recv())
        proof = password.proof(secret, str(asked.body.get("challenge")))
        await self._rewarder.send(Message(messages.PROOF, {"proof": proof}).encoded())
        if error := messages.decoded(await self._rewarder.recv()).body.get("error"):
            raise rfb.Refused(str(error))
        first = messages.decoded(await self._rewarder.recv())
        self.described, self.first_episode = first.body, first.episode
        self._note(first)

    def _take_update(self, rectangles: list[Rectangle]) -> None:
        self._in.call(self._draw, rectangles)

    def _draw(self, rectangles: list[Rectangle]) -> None:
        with self._lock:
            np.copyto(self._before, self._picture)
            rfb.apply(rectangles, self._picture)
            if rfb.touches(rectangles, self.described.get("picture", (1, 1))[1]):
                self._pressed = None
            drawn = stamp.read(self._picture[-stamp.HEIGHT :, : stamp.WIDTH])
            self._drawn = self._drawn if drawn is None else drawn
            self._received = now_ms()
            self._updates += 1

    async def _listen(self) -> None:
        async for text in self._rewarder:
            message = messages.decoded(text)
            if message.method == messages.REPLY_PING:
                self._take_ping(message)
            else:
                self._in.call(self._take_message, message)

    def _take_message(self, message: Message) -> None:
        if message.method == messages.INPUT:
            self._match_keys(message.body["keys"])
        elif message.method in (messages.REWARD, messages.DESCRIBE):
            self._note(message)
            self._messages.append((now_ms(), message))

    def _note(self, message: Message) -> None:
        self.has_played |= message.body.get("env_state") == messages.RUNNING

    def _match_keys(self, arrived: list[list[Any]]) -> None:
        """Times the way of keys; those that somebody else has pressed are not among the sent."""
        for key, down, at in arrived:
            place = next((i for i, one in enumerate(self._sent) if one[:2] == (key, down)), None)
            if place is None:
                continue
            sent_at = self._sent[place][2]
            for _ in range(place + 1):
                self._sent.popleft()
            if not math.isnan(self.skew):
                with self._lock:
                    self._lags.append(at - self.skew - sent_at)

    async def _ping(self) -> None:
        while not self._is_unanswered():
            text = Message(messages.PING).encoded()
            self._asked[messages.decoded(text).number] = now_ms()
            await self._rewarder.send(text)
            # Often at first: until then, nothing is known of the clocks.
            is_first = len(self._pings) + len(self._asked) < FIRST_PINGS
            await asyncio.sleep(FIRST_EVERY_S if is_first else PING_EVERY_S)
        raise ConnectionError("its rewarder does not answer")

    def _is_unanswered(self) -> bool:
        """Several pings are: of a process that was stopped itself, one may be."""
        oldest = min(self._asked.values(), default=math.inf)
        return len(self._asked) > MOST_UNANSWERED and now_ms() - oldest > ANSWERS_WITHIN_MS

    def _take_ping(self, reply: Message) -> None:
        if (asked_at := self._asked.pop(reply.parent or -1, None)) is not None:
            now = now_ms()
            self._pings.append((now - asked_at, reply.sent_at - (now + asked_at) / 2))


class Delay:
    """Calls functions later, in the order in which they were asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop, self.seconds = loop, seconds
        self._waiting: collections.deque[tuple[Callable, tuple]] = collections.deque()

    def call(self, function: Callable, *arguments: Any) -> None:
        """Calls it, after the delay."""
        if not self.seconds:
            function(*arguments)
            return
        self._waiting.append((function, arguments))
        self._loop.call_later(self.seconds, self._next)

    def _next(self) -> None:
        function, arguments = self._waiting.popleft()
        function(*arguments)
