"""Processes that a fork server makes, each from its start to its real end.

The fork server reports the exit codes of its children. When it is killed they live on for a while, and a pipe that
breaks looks like their end. So the end of a process is taken from the kernel (a pidfd, on Linux), and its exit code
from the fork server, where that still lives.
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

# A fork server that has the library loaded makes a process in no time; elsewhere forking is not safe, or not there.
_CONTEXT: Any = get_context("forkserver" if sys.platform.startswith("linux") else "spawn")
# A path of a socket has 107 bytes.
_LONGEST_FOLDER = 80
_CHILD = "ding.parallel.launch.child"
# How long the exit code of a process that has ended, or the end of a fork server that answers no more, is waited for.
_NEWS_S = 2.0
_LOOK_S = 0.1
# What ``multiprocessing`` reports of a process whose fork server was killed; a process may also end with it by itself.
_UNKNOWN = 255


class ForkServerLost(EOFError):
    """The fork server was killed while it made a process; the next start makes another fork server."""


class _Warmth:
    """Whether the fork server has imported what it was given; until then the start of a process waits for that.

    Attributes:
        news: what ``multiprocessing.connection.wait`` reports once ``is_ready`` returns ``True``.
    """

    def __init__(self) -> None:
        self.news, self._sender = Pipe(duplex=False)
        self._thread = threading.Thread(target=self._warm_up, name="fork-server", daemon=True)
        if _CONTEXT.get_start_method() == "forkserver":
            self._thread.start()
        else:
            self._sender.close()

    def is_ready(self) -> bool:
        """Whether the start of a process takes no time now, or the fork server was killed meanwhile."""
        return bool(self.news.poll())

    def close(self, end_server: Callable[[], None]) -> None:
        """Free what is held. ``end_server`` is called until the fork server is not waited for any more."""
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
    """What the first process of a fork server does."""


@contextlib.contextmanager
def fork_server(folder: str, preload: Sequence[str] = ()) -> Iterator[_Warmth]:
    """Start the fork server, and end it with the block, unless it ran before: no process is left after a run.

    Args:
        folder: where its socket lies; one that is removed even if this process is killed.
        preload: modules that the fork server imports once for all roles; none of them may start a thread.
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
                    # All its children have ended. While it still imports, it would not notice anything else.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

            warmth.close(end)
            if ours and hasattr(server, "_stop"):
                end()
                server._stop()


@contextlib.contextmanager
def _temporary_folder(folder: str) -> Iterator[None]:
    """Have ``multiprocessing`` put its sockets into ``folder``: one that it makes stays when this process is killed."""
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
    """Have a fork server; returns its pid, or ``None`` where there is none.

    It blocks what reaches all processes of a terminal or a service at once: it would die of it while it loads the
    library, and with it every process that it forks; the launcher ends it.
    """
    if _CONTEXT.get_start_method() != "forkserver":
        return None
    # First, because it changes the blocked signals at its start.
    multiprocessing.resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return getattr(multiprocessing.forkserver._forkserver, "_forkserver_pid", None)


class ForkSpawner:
    """The ``Spawner`` of processes on this machine."""

    own_processes = True

    def opened(self, run_dir: str, preload: Sequence[str]) -> contextlib.AbstractContextManager[_Warmth]:
        """See ``Spawner.opened``."""
        return fork_server(run_dir, preload)

    def start(self, spec: ChildSpec, pipe: Connection) -> ForkedProcess:
        """See ``Spawner.start``."""
        return ForkedProcess(child_main, (spec, pipe), spec.role.name)


class ForkedProcess:
    """A process, from its construction on; ``close`` it after its end.

    Attributes:
        pid: its id.

    Raises:
        ForkServerLost: the fork server was killed just now.
        OSError: no process can be made.
    """

    unknown_end = "ended after the fork server was killed"

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...], name: str) -> None:
        server = _ready_fork_server()
        # No daemon: a collector may have env processes of its own.
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
        """What ``multiprocessing.connection.wait`` reports as soon as the process has ended."""
        return self._process.sentinel if self._own is None else self._own

    def has_ended(self) -> bool:
        """Whether it has ended."""
        return bool(wait([self.end], 0))

    def exitcode(self) -> int | None:
        """The exit code of a process that has ended; ``None`` where the fork server was killed, which knew it."""
        wait([self._process.sentinel], _NEWS_S)
        code: int | None = self._process.exitcode
        if code == _UNKNOWN and self._server is not None and wait([self._server], _NEWS_S):
            return None
        return code

    def kill(self) -> None:
        """End it now."""
        if self._own is None:
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._own, signal.SIGKILL)

    def close(self) -> None:
        """Free what it held; it has ended."""
        for descriptor in (self._own, self._server):
            if descriptor is not None:
                os.close(descriptor)
        self._own = self._server = None
        with contextlib.suppress(ValueError):  # the fork server stands still, and does not say that it has ended
            self._process.close()


def _pidfd(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended; ``None`` without one, or without a process."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
