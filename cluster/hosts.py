"""Asking hosts: all at once, each answer its own, a host that fails no trouble to the others."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from cluster.model import Host
from cluster.on_host.answers import answer
from cluster.record import Part, Record

AT_ONCE = 64
Key = TypeVar("Key", bound=Hashable)
Where = tuple[Host, str]


class HostFailed(Exception):
    """What is wrong with a host, and how to mend it."""

    def __init__(self, problem: str, remedy: str = ""):
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


class Hosts:
    """Answers of hosts, here or over SSH."""

    def ask(self, host: Host, request: dict[str, Any]) -> dict[str, Any]:
        """One request; ``HostFailed`` says why there is no answer."""
        try:
            reply = answer(dict(request))
        except Exception as error:
            raise HostFailed(f"{type(error).__name__}: {error}") from error
        if "error" in reply:
            raise HostFailed(reply["error"])
        return reply

    def ask_all(
        self, requests: Mapping[Where, dict[str, Any]]
    ) -> dict[Where, dict[str, Any] | HostFailed]:
        """A request to each host and folder; a failure stands in the place of its answer."""
        return at_once(lambda where: self.ask(where[0], requests[where]), requests)


def at_once(
    work: Callable[[Key], dict[str, Any]], keys: Iterable[Key]
) -> dict[Key, dict[str, Any] | HostFailed]:
    """The result of each key's work, done side by side."""

    def one(key: Key) -> dict[str, Any] | HostFailed:
        try:
            return work(key)
        except HostFailed as error:
            return error

    listed = list(keys)
    with ThreadPoolExecutor(min(AT_ONCE, len(listed) or 1)) as pool:
        return dict(zip(listed, pool.map(one, listed), strict=True))


def places(record: Record) -> dict[Where, list[Part]]:
    """The processes of a run by where their keepers are, and the places of all learners."""
    found: dict[Where, list[Part]] = {}
    for part in record.parts:
        found.setdefault((part.host, part.folder), []).append(part)
    for listener in record.listeners:  # under a mpirun elsewhere
        found.setdefault((listener.host, listener.folder), [])
    return found


def request(record: Record, do: str, where: Where, parts: list[Part], **more: Any) -> dict:
    """What every request about a run says, and ``more``."""
    return {
        "do": do,
        "run_id": record.run_id,
        "tmux": record.tmux,
        "logdir": record.logdir,
        "folder": where[1],
        "names": [part.name for part in parts],
        **more,
    }
