"""The messages between a rewarder and its clients: JSON objects over a WebSocket."""

import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

REWARD, DESCRIBE, INPUT = "v0.env.reward", "v0.env.describe", "v0.env.input"
RESET, PING = "v0.env.reset", "v0.control.ping"
REPLY_PING, REPLY_RESET = "v0.reply.control.ping", "v0.reply.env.reset"
CHALLENGE, PROOF, REPLY_PROOF = "v0.control.challenge", "v0.control.proof", "v0.reply.control.proof"
RUNNING, RESETTING, FROZEN = "running", "resetting", "frozen"

_numbers = itertools.count(1)
# What a text raises that is no message.
_OF_OTHERS = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)


def now_ms() -> float:
    """Milliseconds of this host's clock that nobody sets; stamps and messages carry it."""
    return time.monotonic() * 1000


@dataclass
class Message:
    """One message; `parent` is the number of the one that it answers."""

    method: str
    body: dict[str, Any] = field(default_factory=dict)
    episode: str = ""
    parent: int | None = None
    sent_at: float = 0.0
    number: int = 0

    def encoded(self) -> str:
        """The message as it is sent, now."""
        headers: dict[str, Any] = {"sent_at": now_ms(), "message_id": next(_numbers)}
        if self.episode:
            headers["episode_id"] = self.episode
        if self.parent is not None:
            headers["parent_message_id"] = self.parent
        return json.dumps({"method": self.method, "headers": headers, "body": self.body})


def decoded(text: str | bytes) -> Message:
    """A received message; a ValueError if it is none."""
    try:
        given = json.loads(text)
        headers, body = given["headers"], dict(given["body"])
        _check(body, given["method"])
        return Message(
            method=str(given["method"]),
            body=body,
            episode=str(headers.get("episode_id", "")),
            parent=headers.get("parent_message_id"),
            sent_at=float(headers["sent_at"]),
            number=int(headers["message_id"]),
        )
    except _OF_OTHERS as error:
        raise ValueError(f"not a message of a rewarder: {error!r}") from None


def _check(body: dict[str, Any], method: Any) -> None:
    """Raises an error, such as a TypeError, unless a body has what its readers count on."""
    numbers = [body.get(name) or 0 for name in ("at", "fps", "still_s")]
    if method == INPUT:
        numbers += [at for _, _, at in body["keys"]]
    if method == REWARD:
        is_cut = body.get("info", {}).get("truncated")
        numbers += [body["reward"], bool(body["done"]), bool(is_cut)]
    for number in numbers:
        if not isinstance(number, int | float):
            raise TypeError(f"{number!r} is no number")
        float(number)  # an OverflowError where it has too many digits
    width, height = body.get("picture", (1, 1))
    if not (isinstance(width, int) and isinstance(height, int) and width > 0 < height):
        raise TypeError(f"a picture of {width!r} × {height!r} pixels")
