"""What is done with hosts whose keys are not known; a changed key is refused by paramiko itself."""

import threading
from pathlib import Path

import paramiko


class NewKey(paramiko.SSHException):
    """A host whose key is not in known_hosts."""


class RefuseNew(paramiko.MissingHostKeyPolicy):
    """Tells which key it is, so that one can compare."""

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        raise NewKey(f"{key.get_name()} {key.fingerprint}")


class AppendNew(paramiko.MissingHostKeyPolicy):
    """Adds a line; paramiko's own policy writes the whole file anew, without its comments."""

    def __init__(self, path: Path):
        self._path = path
        self._lock = threading.Lock()

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        line = f"{hostname} {key.get_name()} {key.get_base64()}\n"
        with self._lock:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self._path, "a+") as file:
                file.seek(0)
                before = file.read()
                file.write(line if not before or before.endswith("\n") else f"\n{line}")
