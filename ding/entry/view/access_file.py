"""Address of an active parallel run for requests of its status or another number of collectors: a file in its
experiment folder, readable only by its owner.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ding.config.errors import ConfigValueError
from ding.utils.file_helper import write_text

FILE_NAME = "access.json"

_Answer = TypeVar("_Answer")


class AccessFile:
    """``<exp_name>/access.json`` with address and token of an active run. The token grants full access to the run.

    Args:
        exp_name: Experiment folder.
        token: Token of the run.
        tls: ``system_config.tls`` for requests, if set.
    """

    def __init__(self, exp_name: str, token: str, tls: Mapping[str, Any] | None = None) -> None:
        self._path = Path(exp_name) / FILE_NAME
        self._token = token
        # It may be read from another working directory.
        self._tls = {key: os.path.abspath(one) if isinstance(one, str) else one for key, one in (tls or {}).items()}
        self._address: str | None = None

    def update(self, announced: Mapping[str, Any] | None) -> None:
        """Write the coordinator's address if it has changed."""
        address = (announced or {}).get("address")
        if address is None or address == self._address:
            return
        self._address = address
        write_text(self._path, json.dumps({"address": address, "token": self._token, "tls": self._tls}), private=True)

    def remove(self) -> None:
        """Remove the file at the end of the run, unless it belongs to another run (in a file system without locks)."""
        # A file that is unreadable or malformed has no owner.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if json.loads(self._path.read_text(encoding="utf-8")).get("token", self._token) != self._token:
                return
        self._path.unlink(missing_ok=True)


def read_status(exp_name: str) -> dict[str, Any]:
    """Request the status of the run in ``exp_name``.

    Raises:
        ConfigValueError: No run is active there, or it does not answer.
    """
    from ding.interaction import fetch_status

    entries: dict[str, Any] = ask_run(exp_name, fetch_status)
    return entries


def ask_run(exp_name: str, request: Callable[..., _Answer], *args: object) -> _Answer:
    """Send a request to the run in ``exp_name`` and return its result; raises like ``read_status``.

    Args:
        exp_name: Experiment folder.
        request: Called with the address, ``args``, and the keywords ``run_token`` and ``tls``.
        args: Arguments of the request.
    """
    from ding.interaction import InteractionError, TlsConfig

    path = Path(exp_name) / FILE_NAME
    try:
        access = json.loads(path.read_text())
        tls = TlsConfig(**access["tls"]) if access.get("tls") else None
        return request(access["address"], *args, run_token=access["token"], tls=tls)
    except FileNotFoundError as error:
        raise ConfigValueError(f"{path}: there is no such file, so no parallel run lasts there") from error
    except (InteractionError, ValueError, KeyError) as error:
        raise ConfigValueError(f"{exp_name}: the run does not answer: {error}") from error
