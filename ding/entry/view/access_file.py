"""Where a running parallel run is asked for its status, or for other numbers of collectors: a file in its experiment
folder, for its owner only.
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
    """``<exp_name>/access.json``: address and token, while the run lasts. The token opens every door of the run.

    Args:
        exp_name: the experiment folder.
        token: the run's.
        tls: ``system_config.tls``, with which it is asked, if it has that.
    """

    def __init__(self, exp_name: str, token: str, tls: Mapping[str, Any] | None = None) -> None:
        self._path = Path(exp_name) / FILE_NAME
        self._token = token
        # It may be read from another working directory.
        self._tls = {key: os.path.abspath(one) if isinstance(one, str) else one for key, one in (tls or {}).items()}
        self._address: str | None = None

    def update(self, announced: Mapping[str, Any] | None) -> None:
        """Write the coordinator's address when it is new."""
        address = (announced or {}).get("address")
        if address is None or address == self._address:
            return
        self._address = address
        write_text(self._path, json.dumps({"address": address, "token": self._token, "tls": self._tls}), private=True)

    def remove(self) -> None:
        """The run is over; the file of another run, which came into the folder where there are no locks, stays."""
        # What cannot be read, or is no such file, is nobody's.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if json.loads(self._path.read_text(encoding="utf-8")).get("token", self._token) != self._token:
                return
        self._path.unlink(missing_ok=True)


def read_status(exp_name: str) -> dict[str, Any]:
    """Ask the run in ``exp_name`` for its status.

    Raises:
        ConfigValueError: no run lasts there, or it does not answer.
    """
    from ding.interaction import fetch_status

    entries: dict[str, Any] = ask_run(exp_name, fetch_status)
    return entries


def ask_run(exp_name: str, request: Callable[..., _Answer], *args: object) -> _Answer:
    """Return what a request to the run in ``exp_name`` returns; raises as ``read_status`` does.

    Args:
        exp_name: the experiment folder.
        request: called with the address, ``args``, and the keywords ``run_token`` and ``tls``.
        args: what is requested.
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
