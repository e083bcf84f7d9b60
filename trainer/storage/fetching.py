"""Where a bundle comes from: a file, an address with a checksum, or a name in a registry."""

import contextlib
import hashlib
import http.client
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from trainer.machine.launching import PROJECT
from trainer.storage.folder import remove_leftovers
from user_error import UserError, closest

NAMED = "zoo:"  # before a name of the registry
OWN_REGISTRY = PROJECT / "zoo" / "registry.yaml"
ADDRESS = re.compile(r"https?://", re.IGNORECASE)
CHECKSUM = re.compile(r"#sha256=([0-9a-fA-F]{64})$")
MOST_BYTES = 2**31
TIMEOUT_S = 30


def located(given: str, flag: str, registry: str = "") -> Path | None:
    """The file of a bundle given by address or name, fetched if need be; None for anything else.

    ``registry`` is a file or address of names; "" is the project's own.
    """
    try:
        return _located(given, flag, registry)
    except OSError as error:  # what a registry names, or the cache, is somebody else's
        raise UserError(
            f"{flag}={given}: {error.filename} cannot be read ({error.strerror})."
        ) from None


def _located(given: str, flag: str, registry: str) -> Path | None:
    if given.startswith(NAMED):
        return _named(given.removeprefix(NAMED), f"{flag}={given}", registry)
    if not ADDRESS.match(given):
        return None
    checksum = CHECKSUM.search(given)
    if not checksum:
        raise UserError(
            f"{flag}={given}: expected the checksum behind the address, as in "
            "https://example.org/agent.npz#sha256=64 digits."
        )
    return _fetched(given[: checksum.start()], checksum[1].lower(), f"{flag}={given}")


def listing(registry: str = "") -> str:
    """Each name of the registry with its description, a line each."""
    entries, _ = _registry(registry, "--registry")
    width = max(map(len, entries), default=0)
    return "\n".join(
        f"{NAMED}{name:<{width}}  {entry.get('description', '')}" for name, entry in entries.items()
    )


def _named(name: str, what: str, registry: str) -> Path:
    entries, base = _registry(registry, what)
    if name not in entries:
        known = closest(name, sorted(entries)) if entries else "The registry is empty."
        raise UserError(f"{what}: the registry has no {name!r}. {known}")
    entry = entries[name]
    source, checksum = str(entry.get("source", "")), str(entry.get("sha256", "")).lower()
    if not source or not re.fullmatch(r"[0-9a-f]{64}", checksum):
        raise UserError(f"{what}: the registry needs source and sha256 for {name!r}.")
    if ADDRESS.match(source) or ADDRESS.match(base):
        address = source if ADDRESS.match(source) else urllib.parse.urljoin(base, source)
        return _fetched(address, checksum, what)
    path = Path(base).parent / source
    if not path.is_file():
        raise UserError(f"{what}: the registry names {path}, which is not there.")
    _check(path, checksum, what)
    return path


def _registry(given: str, what: str) -> tuple[dict[str, dict[str, Any]], str]:
    """The entries by name, and where the registry is."""
    base = given or str(OWN_REGISTRY)
    try:
        if ADDRESS.match(base):
            with urllib.request.urlopen(base, timeout=TIMEOUT_S) as answer:
                text = answer.read(2**20).decode()
        else:
            text = Path(base).read_text()
        # As text: a name may be 2048, or yes.
        entries = yaml.load(text, Loader=yaml.BaseLoader) or {}
    except (OSError, ValueError, http.client.HTTPException, yaml.YAMLError) as error:
        raise UserError(f"{what}: the registry {base} cannot be read ({_reason(error)}).") from None
    if not isinstance(entries, dict) or not all(isinstance(one, dict) for one in entries.values()):
        raise UserError(
            f"{what}: the registry {base} is not a mapping of names to source and sha256."
        )
    return entries, base


def _fetched(address: str, checksum: str, what: str) -> Path:
    """The file in the cache, fetched first if it is not there."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "impala" / "bundles"
    path = folder / f"{checksum}.npz"
    if path.is_file() and _sha256(path) == checksum:
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder, ".*")
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as file:
            temporary = Path(file.name)
            try:
                _download(address, file)
                file.flush()
                os.fsync(file.fileno())
                _check(temporary, checksum, what)
                os.replace(temporary, path)
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UserError(f"{what}: {address} could not be fetched ({_reason(error)}).") from None
    return path


def _download(address: str, file: Any) -> None:
    with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
        if int(answer.headers.get("Content-Length") or 0) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
        shutil.copyfileobj(_Limited(answer), file)


class _Limited:
    """Reads from an answer up to the limit."""

    def __init__(self, answer: Any):
        self._answer, self._left = answer, MOST_BYTES

    def read(self, size: int = -1, /) -> bytes:
        part = self._answer.read(size)
        self._left -= len(part)
        if self._left < 0:
            raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
        return part


def _check(path: Path, checksum: str, what: str) -> None:
    found = _sha256(path)
    if found != checksum:
        raise UserError(f"{what}: its sha256 is {found}, expected {checksum}; it was not used.")


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(getattr(error, "strerror", None) or error).split("\n")[0]
