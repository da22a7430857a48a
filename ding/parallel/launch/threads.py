"""Roles as threads of this process, for debugging and notebooks.

A thread cannot be killed. Instead it is asked to stop, and counts as ended at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait

from ding.parallel.launch.child import ChildSpec, RolePipe, outcome_of
from ding.parallel.launch.role import RoleContext
from ding.parallel.launch.spawner import AlwaysReady
from ding.utils.credentials import RUN_TOKEN_VARIABLE, own_token_restored

logger = logging.getLogger("ding.entry")


class ThreadSpawner:
    """``Spawner`` of threads. The token of the run is in the environment of this process meanwhile."""

    own_processes = False

    @contextlib.contextmanager
    def opened(self, run_dir: str, preload: Sequence[str]) -> Iterator[AlwaysReady]:
        """See ``Spawner.opened``."""
        with own_token_restored():
            yield AlwaysReady()

    def start(self, spec: ChildSpec, pipe: Connection) -> RoleThread:
        """See ``Spawner.start``."""
        return RoleThread(spec, Connection(os.dup(pipe.fileno())))


class RoleThread:
    """Role in a running thread."""

    pid = None
    unknown_end = "ended, because it was told to"

    def __init__(self, spec: ChildSpec, pipe: Connection) -> None:
        self.end, self._ended = Pipe(duplex=False)
        self._closing = threading.Lock()
        self._code: int | None = None
        self._pipe = RolePipe(pipe, lambda: None)
        role = spec.role
        self._context = RoleContext(role, spec.run_dir, spec.token, spec.peers, self._pipe.send, spec.incarnation)
        os.environ[RUN_TOKEN_VARIABLE] = spec.token
        self._pipe.begin(self._context)
        threading.Thread(target=self._run, args=(spec,), name=role.name, daemon=True).start()

    def has_ended(self) -> bool:
        """See ``SpawnedProcess.has_ended``."""
        return bool(wait([self.end], 0))

    def exitcode(self) -> int | None:
        """See ``SpawnedProcess.exitcode``."""
        return self._code

    def kill(self) -> None:
        """See ``SpawnedProcess.kill``, and the module."""
        self._context.stop.set_soon("killed")
        self._report_end()

    def close(self) -> None:
        """See ``SpawnedProcess.close``."""
        self.end.close()

    def _run(self, spec: ChildSpec) -> None:
        code, message = outcome_of(spec, self._context)
        if code:
            logger.info("%s failed:\n%s", spec.role.name, message)
        self._pipe.finish(message)
        self._code = code
        self._report_end()

    def _report_end(self) -> None:
        with self._closing:
            self._ended.close()
