"""Connection of this process to a Ray cluster. Ray is imported only when a function needs it."""

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
"""Oldest tested version of Ray."""

SMALL_BYTES = 256 * 1024
"""Maximum size of frames that are sent within a message, at half the cost of an object of the cluster."""

_AUTH_MODE = "RAY_AUTH_MODE"
_HEAD = "from ding.parallel.ray_head import lead; lead"
_HEAD_END_S = 10.0
# A busy machine may take longer than Ray waits, which is not configurable.
_STARTS = 3
_TIMED_OUT = "timed out during startup"
_OF_DRIVER = frozenset(
    ("configure_logging", "job_config", "log_to_driver", "logging_config", "logging_format", "logging_level")
    + ("namespace", "runtime_env")
)
"""Options of ``ray.init`` for the connecting process; the others belong to the process that starts a cluster."""


def require_ray() -> ModuleType:
    """Import and return Ray.

    Raises:
        MissingExtraError: Ray is missing or too old; the message names the package to install.
    """
    return require_extra("ray", "ray", LEAST_VERSION)


@contextlib.contextmanager
def ray_cluster(address: str | None, init: Mapping[str, Any]) -> Iterator[None]:
    """Connect to a cluster within the block.

    An existing connection is used and kept.

    Args:
        address: Address of a running cluster, or ``'auto'`` for that of this machine; ``None``: start a cluster and end
            it with the block.
        init: Keyword arguments of ``ray.init``.

    Raises:
        MissingExtraError: Ray is missing or too old.
        ConnectionError: There is no cluster at ``address``, or none can be started.
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
    for starts_left in reversed(range(_STARTS)):
        with _head(options) as pipe:
            try:
                address = _answer(pipe)
            except Exception as error:
                if not starts_left or _TIMED_OUT not in str(error):
                    raise
                logger.warning("the cluster of Ray did not start within Ray's 30 s; it is started again")
                continue
            yield address
            return


@contextlib.contextmanager
def _head(options: dict[str, Any]) -> Iterator[Connection]:
    """Have a process start a cluster; yields the pipe to it. The cluster ends with the block."""
    ours, theirs = Pipe()
    with ours:
        with theirs:
            head = subprocess.Popen(
                # Let it import the same modules as this process.
                [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {_HEAD}({theirs.fileno()})"],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            ours.send({"log_to_driver": False, "configure_logging": False, **options})
            yield ours
        finally:
            ours.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                head.wait(_HEAD_END_S)
            head.kill()
            head.wait()


def _answer(pipe: Connection) -> str:
    """Return the address sent by the head of a cluster, or raise its error."""
    try:
        answer: str | Exception = pipe.recv()
    except EOFError as error:
        raise ConnectionError("the process that starts the cluster of Ray was killed") from error
    if isinstance(answer, Exception):
        raise answer
    return answer


def _require_token(ray: Any) -> None:
    """Make an own cluster require the user's token, as Ray does if the driver itself starts the cluster."""
    if _AUTH_MODE not in os.environ:
        os.environ[_AUTH_MODE] = "token"
        # Ray reads the environment on import.
        ray._raylet.Config.initialize("")


def node_address() -> str:
    """Return the address of this node for other nodes."""
    return str(require_ray().util.get_node_ip_address())


def has_other_nodes() -> bool:
    """Return whether actors may run on other nodes, now or later: the cluster was not started by this process."""
    ray = require_ray()
    return len(ray.nodes()) > 1


def new_namespace() -> str:
    """Return a unique namespace for the named actors of a run."""
    return f"ding-{secrets.token_hex(6)}"
