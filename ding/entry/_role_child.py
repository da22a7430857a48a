"""The process of a role: it dies with its launcher, stops when asked, and tells how it ended.

The launcher and the process share one pipe. What goes down it: ``("stop",)``, ``("peer", name, data)``. What comes up:
``("peer", data)``, ``("status", data)``, ``("progress",)``, ``("log", level, text)``, ``("result", data)``,
``("error", traceback, permanent)``. Its end of file means that the other side is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import logging
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ding.config.errors import ConfigError
from ding.entry._role import PermanentRoleError, Role
from ding.entry._run_dir import RunDir
from ding.entry._signals import STOP_SIGNALS

logger = logging.getLogger("ding.entry")

TOKEN_VARIABLE = "DING_RUN_TOKEN"
ORPHAN_GRACE_S = 4
_EXIT_GRACE_S = 3
_PR_SET_PDEATHSIG = 1
_MAX_UNSENT = 1000
_FLUSH_S = 2.0
_ORPHAN_NEWS_S = 0.3


@dataclass(frozen=True)
class ChildSpec:
    """All that a process of a role is told at its start. Pickled by cloudpickle, to the launcher's own child only."""

    role: Role
    incarnation: int
    run_dir: str
    log_file: str
    token: str
    peers: dict[str, Any]
    show_level: int = logging.WARNING

    def __reduce__(self) -> Any:
        return _load_spec, (cloudpickle.dumps(dict(self.__dict__)),)


def _load_spec(data: bytes) -> ChildSpec:
    return ChildSpec(**cloudpickle.loads(data))


class StopRequest:
    """The wish that this process ends; it is made once and stays."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.reason: str | None = None

    def set(self, reason: str) -> None:
        """Make the request; later ones change nothing."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the request, at most ``timeout_s``; returns whether it was made."""
        return self._event.wait(timeout_s)

    def on_set(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the request is made, or now when it was. It must not block."""
        with self._lock:
            if self.reason is None:
                self._callbacks.append(callback)
                return
        callback()


class RoleContext:
    """What the target of a role works with.

    Attributes:
        name: The role.
        incarnation: Number of this process in the role, from 0.
        payload: What the `Role` carries.
        run_dir: Folder that all roles of the run share.
        token: The run's token.
        stop: Set when this process should end; a target returns soon after, within seconds.
    """

    def __init__(self, spec: ChildSpec, pipe: Connection) -> None:
        self.name = spec.role.name
        self.incarnation = spec.incarnation
        self.payload = spec.role.payload
        self.run_dir = spec.run_dir
        self.token = spec.token
        self.stop = StopRequest()
        self.orphaned = threading.Event()
        self._pipe = pipe
        self._peers = dict(spec.peers)
        self._changed = threading.Condition()
        self._watchers: list[Callable[[str, Any], None]] = []
        self._unsent: queue.Queue[tuple[Any, ...] | None] = queue.Queue(_MAX_UNSENT)
        self._sender = threading.Thread(target=self._send, name="role-sender", daemon=True)

    def begin(self) -> None:
        """Start to read and write the pipe."""
        self._sender.start()
        threading.Thread(target=self._read, name="role-reader", daemon=True).start()

    def announce(self, data: Any) -> None:
        """Tell all other roles something about this one (an address); it replaces what was announced before."""
        self._unsent.put(("peer", data))

    def progress(self) -> None:
        """Tell that this process did real work: what failed before does not count any more."""
        self._unsent.put(("progress",))

    def status(self, data: Any) -> None:
        """Show the launcher how this role does (JSON-like). Dropped when the pipe is congested."""
        with contextlib.suppress(queue.Full):
            self._unsent.put_nowait(("status", data))

    def log(self, level: int, text: str) -> None:
        """Show a line to the user. Dropped when the pipe is congested."""
        with contextlib.suppress(queue.Full):
            self._unsent.put_nowait(("log", level, text))

    def peers(self) -> dict[str, Any]:
        """What every role announced last."""
        with self._changed:
            return dict(self._peers)

    def wait_for_peer(self, name: str, timeout_s: float) -> Any:
        """Return what the role ``name`` announced, waiting for its first announcement.

        Returns None when this process is asked to stop meanwhile.

        Raises:
            TimeoutError: Nothing came in time.
        """
        deadline_s = time.monotonic() + timeout_s
        self.stop.on_set(self._wake)
        with self._changed:
            while name not in self._peers:
                if self.stop.is_set():
                    return None
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError(f"{self.name}: {name} did not announce itself within {timeout_s:g} s")
                self._changed.wait(left_s)
            return self._peers[name]

    def on_peer(self, callback: Callable[[str, Any], None]) -> None:
        """Call ``callback(name, data)`` in the reading thread for every announcement from now on."""
        with self._changed:
            self._watchers.append(callback)

    def finish(self, message: tuple[Any, ...] | None) -> None:
        """Send a last message and everything before it, within a few seconds."""
        for one in (message, None) if message is not None else (None,):
            with contextlib.suppress(queue.Full):
                self._unsent.put(one, timeout=_FLUSH_S)
        self._sender.join(_FLUSH_S)

    def _wake(self) -> None:
        # From a thread of its own: a signal handler may run inside the very condition.
        threading.Thread(target=self._notify, daemon=True).start()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _send(self) -> None:
        while (message := self._unsent.get()) is not None:
            try:
                self._pipe.send(message)
            except OSError:
                # The launcher is gone; the reader knows it, too.
                return

    def _read(self) -> None:
        try:
            while True:
                message = self._pipe.recv()
                if message[0] == "stop":
                    self.stop.set("asked by the launcher")
                elif message[0] == "peer":
                    self._on_peer(message[1], message[2])
        except (EOFError, OSError):
            self.orphaned.set()
            arm_hard_exit(ORPHAN_GRACE_S)
            self.stop.set("the launcher is gone")

    def _on_peer(self, name: str, data: Any) -> None:
        with self._changed:
            self._peers[name] = data
            watchers = list(self._watchers)
            self._changed.notify_all()
        for watcher in watchers:
            watcher(name, data)


def child_main(spec: ChildSpec, pipe: Connection) -> None:
    """Run a role in this process, which the launcher started, and exit: 0 after a return, 1 after an exception."""
    _redirect_output(spec)
    # The start method of this process is not that of its own children, if it has any (queues of tensorboardX, envs).
    multiprocessing.set_start_method(None, force=True)
    context = RoleContext(spec, pipe)
    _handle_signals(context.stop)
    _die_with_parent()
    os.environ[TOKEN_VARIABLE] = spec.token
    to_user = _PipeHandler(context, spec.show_level)
    logging.getLogger("ding").addHandler(to_user)
    context.begin()
    run_dir = RunDir.join(spec.run_dir)
    code, message = 0, None
    try:
        result = spec.role.target(context)
        if result is not None:
            message = ("result", result)
    except BaseException as error:  # noqa: BLE001 - whatever the role's code raises is what the launcher must be told
        code, message = 1, _error_message(error)
        # The launcher shows the traceback when it matters; here it is for the role's log.
        logging.getLogger("ding").removeHandler(to_user)
        logger.error("%s failed:\n%s", spec.role.name, message[1])
    context.finish(message)
    logging.shutdown()
    # The kernel's SIGTERM at the death of the launcher may be quicker than the reader of the pipe.
    orphaned = context.orphaned.wait(_ORPHAN_NEWS_S if context.stop.reason == "SIGTERM" else 0)
    run_dir.leave(remove_if_last=orphaned)
    sys.stdout.flush()
    sys.stderr.flush()
    if not orphaned:
        # A thread of a library that never ends must not keep a finished role alive.
        arm_hard_exit(_EXIT_GRACE_S)
    sys.exit(code)


def arm_hard_exit(seconds: int) -> None:
    """End this process after ``seconds`` in any case, even when a call into C code never returns."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)
        return
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


def _error_message(error: BaseException) -> tuple[Any, ...]:
    text = "".join(traceback.format_exception(error))
    return "error", text, isinstance(error, (PermanentRoleError, ConfigError))


def _redirect_output(spec: ChildSpec) -> None:
    """Everything that the process writes goes to the role's log file, native code and crash dumps included."""
    descriptor = os.open(spec.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    faulthandler.enable()
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("ding").setLevel(logging.INFO)
    logger.info("%s: process %d, incarnation %d", spec.role.name, os.getpid(), spec.incarnation)


class _PipeHandler(logging.Handler):
    """Shows lines of at least a level to the user of the launcher; the file has everything."""

    def __init__(self, context: RoleContext, level: int) -> None:
        super().__init__(level)
        self._context = context

    def emit(self, record: logging.LogRecord) -> None:
        self._context.log(record.levelno, record.getMessage())


def _die_with_parent() -> None:
    """Have the kernel send SIGTERM when the launcher dies (through the fork server, which dies with it).

    The end of the pipe tells it as well, on every system; this is for a process that is too busy to read.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _handle_signals(stop: StopRequest) -> None:
    """SIGTERM asks, a second one ends at once. Ctrl-C reaches the launcher, which asks."""

    def on_term(signum: int, frame: FrameType | None) -> None:
        if stop.reason is not None:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
            return
        # The handler runs in the main thread, which may hold any lock just now.
        threading.Thread(target=stop.set, args=("SIGTERM",), daemon=True).start()

    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        # The fork server does not listen to them, see `_role_process`.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
