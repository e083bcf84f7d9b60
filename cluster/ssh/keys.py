"""Keys of users, and what may be wrong with keys."""

import paramiko

ENCRYPTED = "Load it with ssh-add and leave ssh_key empty, so that the agent is used"


class BadFile(paramiko.SSHException):
    """A file of keys that cannot be used: the problem, and how to fix it."""

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


class NewKey(paramiko.SSHException):
    """A host whose key is not in known_hosts."""


class ChangedKey(paramiko.SSHException):
    """A host whose key is not the one in known_hosts."""


class RefusedCertificate(paramiko.SSHException):
    """A host whose certificate is not good enough, and whose key is not known either."""


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
