"""Credentials by which a run's learners and actors recognise each other, in private files.

A learner's file holds a private key, its certificate and a token. An actor's file holds the
certificate, by which the actor recognises its learners, and the token, by which they recognise
it. Both files are PEM, with the token in a block of its own.
"""

import base64
import contextlib
import dataclasses
import datetime
import hashlib
import os
import re
import secrets
import stat
import tempfile
from pathlib import Path

from user_error import NO_ROOM, NotWritten, UserError

FOLDER = "credentials"  # in the run's folder
LEARNER, ACTOR = "learner.pem", "actor.pem"
DESKTOPS = "desktops.vnc"  # the password of remotes, which ``environments`` makes
# The name that a learner proves to have, whatever address it listens at.
NAME = "impala-learner"

KEY, CERTIFICATE, TOKEN = "PRIVATE KEY", "CERTIFICATE", "IMPALA TOKEN"
BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----\s(.*?)-----END \1-----", re.DOTALL)
TOKEN_BYTES = 32
LARGEST_FILE = 1 << 16
# Hosts' clocks differ; no run lasts ten years.
VALID_BEFORE, VALID_FOR = datetime.timedelta(days=2), datetime.timedelta(days=3650)


@dataclasses.dataclass(frozen=True, repr=False)
class Credentials:
    """The contents of a file; ``repr`` does not reveal them."""

    path: str
    certificate: bytes  # PEM
    token: bytes
    key: bytes = b""  # PEM; only learners have it

    @property
    def fingerprint(self) -> str:
        """Identifies them without revealing anything secret."""
        return hashlib.sha256(self.certificate + hashlib.sha256(self.token).digest()).hexdigest()


def make(folder: Path) -> None:
    """Creates the files that are missing; processes that try at once get the same ones.

    An actor's file follows the learner's, which may have been copied there.
    """
    learner, actor = folder / LEARNER, folder / ACTOR
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not learner.exists():
            _write(learner, _new(), replace=False)
        read(str(learner), of_learner=True)
        blocks = BLOCK.finditer(_read_private(str(learner)))
        text = "\n".join(found[0] for found in blocks if found[1] != KEY) + "\n"
        if not _holds(actor, text):
            _write(actor, text, replace=True)
    except OSError as error:
        what = f"--transport=secure: credentials cannot be written to {folder} ({error.strerror})."
        if error.errno in NO_ROOM:
            raise NotWritten(f"{what} Make room and run the same command again.") from None
        raise UserError(f"{what} Choose another --logdir.") from None


def read(path: str, of_learner: bool) -> Credentials:
    """Reads a file; ``UserError`` says what is wrong with it."""
    blocks = {found[1]: found for found in BLOCK.finditer(_read_private(path))}
    expected = [KEY, CERTIFICATE, TOKEN] if of_learner else [CERTIFICATE, TOKEN]
    missing = [name for name in expected if name not in blocks]
    if missing:
        hint = " An actor's file is not enough for a learner." if missing == [KEY] else ""
        raise _wrong(path, f"it contains no {missing[0]}.{hint}")
    if not of_learner and KEY in blocks:
        raise _wrong(path, f"it holds the learners' private key. Actors use the {ACTOR} beside it.")
    found = Credentials(
        path,
        certificate=blocks[CERTIFICATE][0].encode() + b"\n",
        token=_decoded(path, blocks[TOKEN][2]),
        key=blocks[KEY][0].encode() + b"\n" if of_learner else b"",
    )
    _check(found)
    return found


def _read_private(path: str) -> str:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _wrong(path, "it is not a regular file.")
            if status.st_uid not in (os.geteuid(), 0):
                raise _wrong(
                    path,
                    f"it belongs to another user (id {status.st_uid}), who may change it. Copy the "
                    "run's own file there as the user who starts this.",
                )
            if status.st_mode & 0o077:
                raise _wrong(
                    path,
                    f"others may read or change it (mode {status.st_mode & 0o777:04o}). If nobody "
                    f"has, run chmod 600 {path}; otherwise remove it; a learner makes a new one.",
                )
            return file.read(LARGEST_FILE).decode("ascii", "replace")
    except FileNotFoundError:
        raise _wrong(
            path,
            "there is no such file. A learner makes it in LOGDIR/credentials when it starts; for "
            f"an actor elsewhere, copy {ACTOR} from there.",
        ) from None
    except OSError as error:
        raise _wrong(path, f"it cannot be read ({error.strerror}).") from None


def _decoded(path: str, text: str) -> bytes:
    try:
        token = base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        token = b""
    if len(token) != TOKEN_BYTES:
        raise _wrong(path, f"its {TOKEN} is damaged. Copy the file again from where it was made.")
    return token


def _check(found: Credentials) -> None:
    """Refuses a certificate or key that is damaged, or a pair that does not match."""
    import ssl  # late: settings import this module, and --help must be fast

    try:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust.load_verify_locations(cadata=found.certificate.decode())
        if found.key:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(found.path)
    except (ssl.SSLError, ValueError):
        raise _wrong(
            found.path,
            "its certificate or key is damaged. Copy the file again from where it was made.",
        ) from None


def _wrong(path: str, problem: str) -> UserError:
    return UserError(f"--credentials={path}: {problem}")


def _holds(path: Path, text: str) -> bool:
    with contextlib.suppress(OSError):
        return path.read_bytes() == text.encode()
    return False


def _write(path: Path, text: str, replace: bool) -> None:
    """Writes a private file atomically; without ``replace``, keeps one that already exists."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _new() -> str:
    """A new learner's file."""
    # Imported late: reading does not need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID_BEFORE)
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    token = base64.b64encode(secrets.token_bytes(TOKEN_BYTES)).decode()
    return (
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
        + certificate.public_bytes(serialization.Encoding.PEM).decode()
        + f"-----BEGIN {TOKEN}-----\n{token}\n-----END {TOKEN}-----\n"
    )
