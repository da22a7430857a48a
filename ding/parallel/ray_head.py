"""Process that starts a Ray cluster for a run and ends it with the run; started by ``ding.parallel.ray_cluster``.

It has its own session and blocks SIGTERM: a signal that a terminal, a shell or a service manager sends to all processes
of a run then reaches only the driver, which ends the roles in order and needs the cluster for that. The process ends
when the driver closes the pipe, for whatever reason.

Through the pipe it receives the keyword arguments of ``ray.init``, and sends the address of the cluster or an
exception.
"""

import contextlib
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from ding.parallel.ray_cluster import SMALL_BYTES, require_ray

_GRACE_S = 1.0
# Size of a value without its frame, in bytes.
_SURROUNDINGS = 16 * 1024


def lead(descriptor: int) -> None:
    """Start a cluster, and end this session when the other end of a pipe is closed.

    Args:
        descriptor: File descriptor of this end.
    """
    pipe = Connection(descriptor)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    # By default Ray gives its actors nice level 15 of 19, which leaves hardly any room for collectors below their
    # learner.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # Values that are sent within a message of the store must not become objects, which Ray creates beyond 100 KiB.
    os.environ.setdefault("RAY_max_direct_call_object_size", str(SMALL_BYTES + _SURROUNDINGS))
    ray = None
    try:
        options: dict[str, Any] = pipe.recv()
        ray = require_ray()
        pipe.send(ray.init(address="local", **options).address_info["gcs_address"])
    except Exception as error:  # noqa: BLE001 - the driver raises it
        pipe.send(error)
    with contextlib.suppress(EOFError, OSError):
        pipe.recv()
    # Let Ray delete the objects it spilled to disk; afterwards it would wait for processes that ignore SIGTERM.
    timer = threading.Timer(_GRACE_S, _end_session)
    timer.start()
    if ray is not None:
        ray.shutdown()
    _end_session()


def _end_session() -> None:
    os.killpg(0, signal.SIGKILL)
