"""The password of a desktop and of its rewarder: a private file, never a command line.

VNC's passwords have eight characters. Clients prove to both that they know it.
"""

import hashlib
import hmac
import os
import secrets
import stat
import string
import tempfile
from pathlib import Path

from user_error import UserError

LENGTH = 8
# With this key every VNC server scrambles the file of its password.
_FILE_KEY = bytes([23, 82, 107, 6, 35, 78, 88, 7])


def make(path: Path) -> str:
    """Writes a new password to a new file that only this user can read; returns the password."""
    password = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(LENGTH))
    # Whole or not at all: what a full disk leaves would be taken for a password later.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(scrambled(password))
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    finally:
        os.unlink(temporary)
    return password


def read(path: str, flag: str) -> str:
    """The password in a file that `make` or `vncpasswd` wrote."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(2 * LENGTH + 1)
    except OSError as error:
        raise UserError(f"{flag}={path}: it cannot be read ({error.strerror}).") from None
    if stat.S_ISREG(mode) and mode & 0o077:
        raise UserError(f"{flag}={path}: others may read it; run chmod 600 {path}.")
    if len(content) not in (LENGTH, 2 * LENGTH):  # the second one is for those who only look
        raise UserError(
            f"{flag}={path}: it holds no password of VNC; expected a file that vncpasswd or a "
            "remote has written."
        )
    return _des(_FILE_KEY, content[:LENGTH], decrypt=True).rstrip(b"\0").decode("latin-1")


def scrambled(password: str) -> bytes:
    """What a VNC server's password file contains."""
    return _des(_FILE_KEY, _padded(password))


def answer(password: str, challenge: bytes) -> bytes:
    """The answer to the challenge of a VNC server."""
    return _des(_padded(password), challenge)


def proof(password: str, challenge: str) -> str:
    """The answer to the challenge of a rewarder."""
    return hmac.new(password.encode(), challenge.encode(), hashlib.sha256).hexdigest()


def _padded(password: str) -> bytes:
    return password.encode("latin-1")[:LENGTH].ljust(LENGTH, b"\0")


def _des(key: bytes, data: bytes, decrypt: bool = False) -> bytes:
    """DES as VNC has it, with the bits of each byte of the key reversed."""
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher, modes

    reverse = bytes(int(f"{byte:08b}"[::-1], 2) for byte in key)
    # Three times with the same key is the same as once.
    cipher = Cipher(TripleDES(reverse * 3), modes.ECB())
    operation = cipher.decryptor() if decrypt else cipher.encryptor()
    return operation.update(data) + operation.finalize()
