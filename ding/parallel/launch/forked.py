"""Processes of a fork server, supervised from their start to their end.

The fork server reports the exit codes of its children. If it is killed, they survive for a while, and a broken pipe
looks like their end. Therefore the kernel reports the end of a process (by a pidfd, on Linux), and the fork server, if
it is still alive, the exit code.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from ding.parallel.launch.child import ChildSpec, child_main
from ding.parallel.launch.signals import STOP_SIGNALS

# A fork server that has imported the library starts a process quickly; on other platforms it is unsafe or missing.
_CONTEXT: Any = get_context("forkserver" if sys.platform.startswith("linux") else "spawn")
# Maximum length of a socket path, in bytes.
_LONGEST_FOLDER = 80
_CHILD = "ding.parallel.launch.child"
# Seconds to wait for the exit code of an ended process, or for the end of an unresponsive fork server.
_NEWS_S = 2.0
_LOOK_S = 0.1
# Exit code that ``multiprocessing`` reports after the fork server was killed; a process may also exit with it.
_UNKNOWN = 255


class ForkServerLost(EOFError):
    """The fork server was killed while it created a process; the next start creates a new fork server."""


class _Warmth:
    """Import state of the fork server; until it is ready, starting a process waits for the imports.

    Attributes:
        news: Object that ``multiprocessing.connection.wait`` reports once ``is_ready`` returns ``True``.
    """

    def __init__(self) -> None:
        self.news, self._sender = Pipe(duplex=False)
        self._thread = threading.Thread(target=self._warm_up, name="fork-server", daemon=True)
        if _CONTEXT.get_start_method() == "forkserver":
            self._thread.start()
        else:
            self._sender.close()

    def is_ready(self) -> bool:
        """Return whether a process can be started without delay, or the fork server was killed meanwhile."""
        return bool(self.news.poll())

    def close(self, end_server: Callable[[], None]) -> None:
        """Release resources. ``end_server`` is called until nothing waits for the fork server."""
        while self._thread.is_alive():
            end_server()
            self._thread.join(_LOOK_S)
        self.news.close()

    def _warm_up(self) -> None:
        with self._sender, contextlib.suppress(ForkServerLost, OSError):
            process = ForkedProcess(_nothing, (), "warm-up")
            wait([process.end])
            process.exitcode()
            process.close()


def _nothing() -> None:
    """Do nothing; target of the first process of a fork server."""


@contextlib.contextmanager
def fork_server(folder: str, preload: Sequence[str] = ()) -> Iterator[_Warmth]:
    """Start the fork server, and end it with the block unless it was running before; no process outlives the run.

    Args:
        folder: Folder of its socket, which must be removed even if this process is killed.
        preload: Modules that the fork server imports once for all roles; none of them may start a thread.
    """
    server: Any = None
    if _CONTEXT.get_start_method() == "forkserver":
        _CONTEXT.set_forkserver_preload([_CHILD, *preload])
        server = getattr(multiprocessing.forkserver, "_forkserver", None)
    ours = server is not None and getattr(server, "_forkserver_pid", 1) is None
    with _temporary_folder(folder):
        warmth = _Warmth()
        try:
            yield warmth
        finally:

            def end() -> None:
                pid = getattr(server, "_forkserver_pid", None)
                if ours and pid is not None:
                    # All its children have ended. During its imports it would not notice anything else.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

            warmth.close(end)
            if ours and hasattr(server, "_stop"):
                end()
                server._stop()


@contextlib.contextmanager
def _temporary_folder(folder: str) -> Iterator[None]:
    """Make ``multiprocessing`` create its sockets in ``folder``; its own folder would remain after a kill."""
    config = getattr(multiprocessing.current_process(), "_config", {})
    if "tempdir" in config or len(folder) > _LONGEST_FOLDER:
        yield
        return
    config["tempdir"] = folder
    try:
        yield
    finally:
        config.pop("tempdir", None)


def _ready_fork_server() -> int | None:
    """Ensure that a fork server is running; return its pid, or ``None`` if the platform has none.

    It blocks signals that reach all processes of a terminal or service at once: otherwise it would die while it loads
    the library, together with every process it forks. The launcher ends it.
    """
    if _CONTEXT.get_start_method() != "forkserver":
        return None
    # First, because it changes the signal mask at its start.
    multiprocessing.resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return getattr(multiprocessing.forkserver._forkserver, "_forkserver_pid", None)


class ForkSpawner:
    """``Spawner`` of processes on this machine."""

    own_processes = True

    def opened(self, run_dir: str, preload: Sequence[str]) -> contextlib.AbstractContextManager[_Warmth]:
        """See ``Spawner.opened``."""
        return fork_server(run_dir, preload)

    def start(self, spec: ChildSpec, pipe: Connection) -> ForkedProcess:
        """See ``Spawner.start``."""
        return ForkedProcess(child_main, (spec, pipe), spec.role.name)


class ForkedProcess:
    """A running process; call ``close`` after its end.

    Attributes:
        pid: Process id.

    Raises:
        ForkServerLost: The fork server was just killed.
        OSError: The process cannot be created.
    """

    unknown_end = "ended after the fork server was killed"

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...], name: str) -> None:
        server = _ready_fork_server()
        # Not a daemon: a collector may have env processes.
        self._process = _CONTEXT.Process(target=target, args=args, name=name, daemon=False)
        try:
            self._process.start()
        except (EOFError, ConnectionError) as error:
            raise ForkServerLost(f"the fork server was killed: {error}") from error
        self.pid: int = self._process.pid
        self._own = _pidfd(self.pid)
        self._server = None if server is None else _pidfd(server)

    @property
    def end(self) -> Connection | int:
        """Object that ``multiprocessing.connection.wait`` reports once the process has ended."""
        return self._process.sentinel if self._own is None else self._own

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return bool(wait([self.end], 0))

    def exitcode(self) -> int | None:
        """Return the exit code of an ended process; ``None`` if the fork server, which knew it, was killed."""
        wait([self._process.sentinel], _NEWS_S)
        code: int | None = self._process.exitcode
        if code == _UNKNOWN and self._server is not None and wait([self._server], _NEWS_S):
            return None
        return code

    def kill(self) -> None:
        """Kill the process."""
        if self._own is None:
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._own, signal.SIGKILL)

    def close(self) -> None:
        """Release the resources of the ended process."""
        for descriptor in (self._own, self._server):
            if descriptor is not None:
                os.close(descriptor)
        self._own = self._server = None
        with contextlib.suppress(ValueError):  # an unresponsive fork server does not report the end
            self._process.close()


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; ``None`` if unsupported or already ended."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
