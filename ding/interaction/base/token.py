"""The token of a run, which authorises requests to its processes; see `ding.utils.credentials`.

The launcher creates it with ``random_token``. Child processes receive it in the environment variable
``DING_RUN_TOKEN``, other machines in a file readable only by its owner. It is sent as ``Authorization: Bearer <token>``
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
    """Return whether two tokens are equal, in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode("utf-8", "surrogateescape"))


def resolve_run_token(run_token: str | None) -> str | None:
    """Return ``run_token``, else the token of the environment, else None.

    Raises:
        ValueError: The token has fewer than 16 or more than 512 characters, contains blanks, or is not ASCII.
    """
    token = own_token() if run_token is None else run_token
    if not token:
        return None
    if _TOKEN.fullmatch(token) is None:
        raise ValueError("a run token must have 16 to 512 printable ASCII characters and no blanks")
    return token


def write_run_token(path: str | os.PathLike[str], token: str) -> None:
    """Write ``token`` to a new file that is readable only by its owner.

    Raises:
        FileExistsError: The file exists; someone else may have opened it.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")


def read_run_token(path: str | os.PathLike[str]) -> str:
    """Read the token from a file.

    Raises:
        TokenFileError: Others may read or write the file, or it contains no token.
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
    """Return whether only this machine can reach ``host``. Of names, only ``localhost`` counts."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_bind(host: str, run_token: str | None) -> None:
    """Refuse to listen for other hosts without a token.

    Raises:
        UnsafeBindError: ``host`` is not a loopback address and there is no run token.
    """
    if run_token is None and not is_loopback(host):
        raise UnsafeBindError(
            f"host {host!r} can be reached from other machines, so a run token is needed: give run_token, set the "
            f"environment variable {RUN_TOKEN_VARIABLE}, or listen on 127.0.0.1"
        )
