"""Files with keys of hosts and of users; a host's changed key is refused by paramiko itself."""

import threading
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

ENCRYPTED = "Load it with ssh-add and leave ssh_key empty, so that the agent is used"


class BadFile(paramiko.SSHException):
    """A file of keys that cannot be used: the problem, and how to fix it."""

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


class NewKey(paramiko.SSHException):
    """A host whose key is not in known_hosts."""


class Client(paramiko.SSHClient):
    """A connection that knows which keys are revoked, in whatever file of hosts they are."""

    def __init__(self) -> None:
        super().__init__()
        self.revoked: dict[str, str] = {}  # the file of each key


class RefuseNew(paramiko.MissingHostKeyPolicy):
    """Reports the key, so that the user can compare it."""

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        _refuse_revoked(client, key)
        raise NewKey(f"{key.get_name()} {key.fingerprint}")


class AppendNew(paramiko.MissingHostKeyPolicy):
    """Adds a line; paramiko's own policy rewrites the whole file, without its comments."""

    def __init__(self, path: Path):
        self._path = path
        self._lock = threading.Lock()

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        _refuse_revoked(client, key)
        line = f"{hostname} {key.get_name()} {key.get_base64()}\n"
        try:
            with self._lock:
                self._append(line)
        except OSError as error:
            raise BadFile(
                f"its host key cannot be added to {self._path}: {error.strerror}",
                "Fix the permissions of that file",
            ) from None

    def _append(self, line: str) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._path, "a+") as file:
            file.seek(0)
            before = file.read()
            file.write(line if not before or before.endswith("\n") else f"\n{line}")


def _refuse_revoked(client: paramiko.SSHClient, key: paramiko.PKey) -> None:
    path = getattr(client, "revoked", {}).get(key.get_base64())
    if path:
        raise BadFile(f"its host key is revoked in {path}", "Do not log in there")


def load_known(client: Client, path: str) -> None:
    """The keys of hosts in a file, if there is one; ``BadFile`` says why it cannot be used.

    Read line by line: paramiko takes a marker, such as @cert-authority, for the name of a host, and
    gives up the whole file. It knows no certificates of hosts, so those lines are left out.
    """
    try:
        text = Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""
    except OSError as error:
        raise BadFile(
            f"{path} cannot be read: {error.strerror}", "Fix the permissions of that file"
        ) from None
    except UnicodeDecodeError:
        raise BadFile(f"{path} is not a text file", "Remove the bytes that are not UTF-8") from None
    lines = [line.strip() for line in text.splitlines()]
    for fields in (line.split() for line in lines if line.startswith("@revoked")):
        client.revoked.update(dict.fromkeys(fields[3:4], path))
    for number, line in enumerate(lines, start=1):
        if line and line[0] not in "#@":
            _load_line(client, line, number, path)


def _load_line(client: Client, line: str, number: int, path: str) -> None:
    """Adds the keys of one line, unless they are revoked."""
    try:
        entry = HostKeyEntry.from_line(line, number)
    except InvalidHostKey as error:
        raise BadFile(f"{path} has a damaged line: {error.line[:60]} …", "Remove it") from None
    except paramiko.SSHException:
        return
    if entry is None or entry.key is None or entry.key.get_base64() in client.revoked:
        return
    known, kind = client.get_host_keys(), entry.key.get_name()
    for name in entry.hostnames or ():
        if kind not in (known.lookup(name) or {}):  # the first line with a key counts
            known.add(name, kind, entry.key)


def private_key(path: str) -> paramiko.PKey:
    """A user's key; ``BadFile`` says why it cannot be used.

    If paramiko reads the file itself, it tries each kind of key in turn, and reports the error of
    the last kind instead of the host's refusal.
    """
    remedy = "Fix column ssh_key"
    try:
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise BadFile(f"the key {path} cannot be read: {error.strerror}", remedy) from None
    except (TypeError, paramiko.PasswordRequiredException):  # cryptography raises the first
        raise BadFile(f"the key {path} is encrypted", ENCRYPTED) from None
    except Exception as error:  # a damaged file raises many kinds
        what = f"the key {path} is not a usable private key ({type(error).__name__})"
        raise BadFile(what, remedy) from None
