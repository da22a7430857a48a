"""The process that starts a cluster of Ray for a run and ends it with the run; ``ding.parallel.ray_cluster`` starts it.

It leads a session of its own, and blocks SIGTERM in it: what a terminal, a shell or a service manager sends to all
processes of a run at once reaches the driver, which ends the roles in order; without their cluster they could not.
The end of its pipe is the end of the driver, however it came about.

The pipe has the keyword arguments of ``ray.init`` for it, and gets the address of the cluster, or the exception.
"""

import contextlib
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from ding.parallel.ray_cluster import SMALL_BYTES, require_ray

_GRACE_S = 1.0
# Bytes of a value beside the frame in it.
_SURROUNDINGS = 16 * 1024


def lead(descriptor: int) -> None:
    """Start a cluster, and end this session when the other end of a pipe is closed.

    Args:
        descriptor: of this end.
    """
    pipe = Connection(descriptor)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    # Ray would give its actors 15 of 19: collectors could hardly step back behind their learner.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # What is in a message of the store needs no object, of which Ray makes one beyond 100 KiB.
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
    # Ray removes what it spilled to the disk; then it would wait for processes that do not listen to SIGTERM.
    timer = threading.Timer(_GRACE_S, _end_session)
    timer.start()
    if ray is not None:
        ray.shutdown()
    _end_session()


def _end_session() -> None:
    os.killpg(0, signal.SIGKILL)
