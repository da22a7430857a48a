"""The token of a run: who has it may talk to the processes of the run, as `ding.utils.credentials` has it.

The launcher makes one with ``random_token``. Its children have theirs in the environment variable ``DING_RUN_TOKEN``,
other machines in a file that only its owner may read. It crosses the wire as ``Authorization: Bearer <token>``
in every request; it is compared in constant time, before the body is looked at, and is never logged.
"""

import hmac
import ipaddress
import os
import re
import stat
from pathlib import Path

from ding.interaction.errors import TokenFileError, UnsafeBindError
from ding.utils.credentials import RUN_TOKEN_VARIABLE, own_token

_TOKEN = re.compile(r"[\x21-\x7e]{16,512}")


def same_token(given: str, expected: str) -> bool:
    """Return whether two tokens are equal; takes the same time wherever they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode("utf-8", "surrogateescape"))


def resolve_run_token(run_token: str | None) -> str | None:
    """``run_token``, or else that of the environment, or else None.

    Raises:
        ValueError: the token has fewer than 16 or more than 512 characters, or blanks, or is not ASCII.
    """
    token = own_token() if run_token is None else run_token
    if not token:
        return None
    if _TOKEN.fullmatch(token) is None:
        raise ValueError("a run token must have 16 to 512 printable ASCII characters and no blanks")
    return token


def write_run_token(path: str | os.PathLike[str], token: str) -> None:
    """Write ``token`` to a new file that only its owner may read.

    Raises:
        FileExistsError: the file is there already; an existing file may have been opened by someone else.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")


def read_run_token(path: str | os.PathLike[str]) -> str:
    """Return the token in a file.

    Raises:
        TokenFileError: others may read or write the file, or there is no token in it.
    """
    path = Path(path)
    with path.open(encoding="ascii", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        text = file.read(4096).strip()
    if os.name == "posix" and mode & 0o077:
        raise TokenFileError(f"{path} has the permissions {mode:04o}; others could read the token: chmod 600 it")
    if _TOKEN.fullmatch(text) is None:
        raise TokenFileError(f"{path} holds no token of 16 to 512 printable characters")
    return text


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is an address that only this machine reaches. Of names, only ``localhost`` is taken for
    one.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_bind(host: str, run_token: str | None) -> None:
    """Refuse to listen to other hosts without a token.

    Raises:
        UnsafeBindError: ``host`` is no loopback address and there is no run token.
    """
    if run_token is None and not is_loopback(host):
        raise UnsafeBindError(
            f"host {host!r} can be reached from other machines, so a run token is needed: give run_token, set the "
            f"environment variable {RUN_TOKEN_VARIABLE}, or listen on 127.0.0.1"
        )
