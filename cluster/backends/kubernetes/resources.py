"""What --learner_resources and --actor_resources ask of Kubernetes for a pod."""

import dataclasses
import re
import shlex
from typing import Any

from user_error import UserError

QUANTITY = re.compile(r"\d+(\.\d+)?(m|[kMGTPE]|[KMGTPE]i)?")
KEY = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
EXPECTED = (
    "expected words such as cpu=4 memory=8Gi nvidia.com/gpu=1 node:pool=gpu tolerate:spot=true"
)


@dataclasses.dataclass(frozen=True)
class Resources:
    """Amounts, labels that a pod's node must have, and taints that it may have."""

    requests: dict[str, str]
    nodes: dict[str, str]
    tolerations: list[dict[str, str]]

    @property
    def container(self) -> dict[str, Any]:
        """The container's part; cores may be exceeded, memory and devices may not."""
        limits = {name: text for name, text in self.requests.items() if name != "cpu"}
        found = {"requests": self.requests, "limits": limits}
        return {name: texts for name, texts in found.items() if texts}


def parse(given: str, flag: str) -> Resources:
    """The words of a flag; a ``UserError`` names a wrong one."""
    found = Resources({}, {}, [])
    try:
        words = shlex.split(given)
    except ValueError:
        raise UserError(f"--{flag}={given}: a quotation mark is not closed.") from None
    for word in words:
        name, equals, value = word.partition("=")
        if name.startswith("tolerate:"):
            found.tolerations.append(_toleration(word.removeprefix("tolerate:"), flag))
        elif name.startswith("node:") and equals and KEY.fullmatch(name[5:]):
            found.nodes[name[5:]] = value
        elif KEY.fullmatch(name) and QUANTITY.fullmatch(value):
            found.requests[name] = value
        else:
            raise UserError(f"--{flag}: {word!r} is not understood; {EXPECTED}.")
    return found


def _toleration(word: str, flag: str) -> dict[str, str]:
    taint, colon, effect = word.partition(":")
    key, equals, value = taint.partition("=")
    if not KEY.fullmatch(key) or (colon and effect not in EFFECTS):
        raise UserError(
            f"--{flag}: 'tolerate:{word}' names no taint; expected tolerate:KEY, "
            f"tolerate:KEY=VALUE or tolerate:KEY=VALUE:{EFFECTS[0]}."
        )
    found = {"key": key, "operator": "Equal" if equals else "Exists"}
    return found | ({"value": value} if equals else {}) | ({"effect": effect} if colon else {})
