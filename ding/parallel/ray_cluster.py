"""The connection of this process to a Ray cluster. Nothing here imports Ray before it is called."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from ding.utils import require_extra

logger = logging.getLogger("ding.entry")

LEAST_VERSION = (2, 60)
"""The oldest Ray that this was tested with."""

SMALL_BYTES = 256 * 1024
"""Frames up to this size travel within a message, which costs half of what an object of the cluster does."""

_AUTH_MODE = "RAY_AUTH_MODE"
_HEAD = "from ding.parallel.ray_head import lead; lead"
_HEAD_END_S = 10.0
_OF_DRIVER = frozenset(
    ("configure_logging", "job_config", "log_to_driver", "logging_config", "logging_format", "logging_level")
    + ("namespace", "runtime_env")
)
"""What ``ray.init`` has for the process that connects; the rest is for the one that starts a cluster."""


def require_ray() -> ModuleType:
    """Import and return Ray.

    Raises:
        MissingExtraError: it is missing or too old; the message says what to install.
    """
    return require_extra("ray", "ray", LEAST_VERSION)


@contextlib.contextmanager
def ray_cluster(address: str | None, init: Mapping[str, Any]) -> Iterator[None]:
    """Be connected to a cluster while the block lasts.

    A process that is connected already stays so, and its cluster is used.

    Args:
        address: of a running cluster, ``'auto'`` for that of this machine; ``None``: one is started here, and ended
            with the block.
        init: keyword arguments of ``ray.init``.

    Raises:
        MissingExtraError: Ray is missing or too old.
        ConnectionError: there is no cluster at ``address``, or none can be started.
    """
    ray = require_ray()
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, **init}
    with contextlib.ExitStack() as ends:
        if address is None:
            own = {"include_dashboard": False, **{key: options.pop(key) for key in options.keys() - _OF_DRIVER}}
            _require_token(ray)
            address = ends.enter_context(_own_cluster(own))
        ray.init(address=address, **options)
        ends.callback(ray.shutdown)
        yield


@contextlib.contextmanager
def _own_cluster(options: dict[str, Any]) -> Iterator[str]:
    """Start a cluster on this machine and yield its address; it ends with the block, and with this process."""
    ours, theirs = Pipe()
    with ours:
        with theirs:
            head = subprocess.Popen(
                # Its modules are where those of this process are.
                [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {_HEAD}({theirs.fileno()})"],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            ours.send({"log_to_driver": False, "configure_logging": False, **options})
            yield _answer(ours)
        finally:
            ours.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                head.wait(_HEAD_END_S)
            head.kill()
            head.wait()


def _answer(pipe: Connection) -> str:
    """Return the address that the head of a cluster sends, or raise what it met."""
    try:
        answer: str | Exception = pipe.recv()
    except EOFError as error:
        raise ConnectionError("the process that starts the cluster of Ray was killed") from error
    if isinstance(answer, Exception):
        raise answer
    return answer


def _require_token(ray: Any) -> None:
    """Have a cluster of one's own ask for the user's token, as Ray does where the driver itself starts it."""
    if _AUTH_MODE not in os.environ:
        os.environ[_AUTH_MODE] = "token"
        # Ray reads the environment when it is imported.
        ray._raylet.Config.initialize("")


def node_address() -> str:
    """Return the address at which other nodes reach this one."""
    return str(require_ray().util.get_node_ip_address())


def has_other_nodes() -> bool:
    """Whether actors may be on other nodes, now or later: the cluster was not started for this process alone."""
    ray = require_ray()
    return len(ray.nodes()) > 1


def new_namespace() -> str:
    """Return a name that the named actors of one run have in common, and of no other."""
    return f"ding-{secrets.token_hex(6)}"
