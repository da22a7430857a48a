"""Process of a role: it ends with its launcher, stops on request, and reports its result or error.

Launcher and process share one pipe. Messages to the process: ``("stop",)``, ``("peer", name, data)``. Messages to the
launcher: ``("peer", data)``, ``("status", data)``, ``("progress",)``, ``("log", level, text)``, ``("result", data)``,
``("error", traceback, permanent, exception)``. End of file means that the other side has ended.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import multiprocessing
import os
import queue
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ding.config.errors import ConfigError
from ding.parallel.launch.role import Message, PermanentRoleError, Role, RoleContext
from ding.parallel.launch.run_dir import RunDir
from ding.parallel.launch.signals import STOP_SIGNALS, first_asks
from ding.utils.credentials import RUN_TOKEN_VARIABLE
from ding.utils.own_code import OwnModule, import_in_child, own_code
from ding.utils.system_helper import die_with_parent, is_ending, wait_for_end

logger = logging.getLogger("ding.entry")

ORPHAN_GRACE_S = 4
_EXIT_GRACE_S = 3
_MAX_UNSENT = 1000
_FLUSH_S = 2.0


@dataclass(frozen=True)
class ChildSpec:
    """Start arguments of a role's process. Pickled by cloudpickle, and sent only to the launcher's own child.

    Attributes:
        own_code: User modules to import first; filled on pickling.
        launcher_pid: Process id of the launcher; filled on pickling.
    """

    role: Role
    incarnation: int
    run_dir: str
    log_file: str | None
    token: str
    peers: dict[str, Any]
    show_level: int = logging.WARNING
    own_code: tuple[OwnModule, ...] = ()
    launcher_pid: int = 0

    def __reduce__(self) -> str | tuple[Any, ...]:
        filled = {**self.__dict__, "own_code": own_code(), "launcher_pid": os.getpid()}
        return _load_spec, (cloudpickle.dumps(filled),)


def _load_spec(data: bytes) -> ChildSpec:
    return ChildSpec(**cloudpickle.loads(data))


class RolePipe:
    """Role's end of the pipe, with a sender thread, so that the role never blocks, and a reader thread.

    Args:
        connection: End of the pipe.
        on_orphaned: Called when the launcher has ended.
    """

    def __init__(self, connection: Connection, on_orphaned: Callable[[], object]) -> None:
        self._connection = connection
        self._on_orphaned = on_orphaned
        self._unsent: queue.Queue[Message | None] = queue.Queue(_MAX_UNSENT)
        self._sender = threading.Thread(target=self._send_all, name="role-sender", daemon=True)

    def begin(self, context: RoleContext) -> None:
        """Start sending and reading; messages are passed to ``context``."""
        self._sender.start()
        threading.Thread(target=self._read, args=(context,), name="role-reader", daemon=True).start()

    def send(self, message: Message, droppable: bool) -> None:
        """Queue a message; a droppable one is dropped if the pipe is congested."""
        if droppable:
            with contextlib.suppress(queue.Full):
                self._unsent.put_nowait(message)
        else:
            self._unsent.put(message)

    def finish(self, message: Message | None) -> None:
        """Send all queued messages and a last one, within a few seconds."""
        for one in (message, None) if message is not None else (None,):
            with contextlib.suppress(queue.Full):
                self._unsent.put(one, timeout=_FLUSH_S)
        self._sender.join(_FLUSH_S)

    def is_orphaned(self, launcher_pid: int) -> bool:
        """Return whether the launcher has ended; wait some seconds for one that is ending.

        The kernel is asked, because on a busy machine the reader may be late. A killed launcher closes its descriptors
        one after the other: it may have closed the one that keeps the fork server alive before this pipe.
        """
        end = select.poll()
        end.register(self._connection, 0)  # with 0 only the closing of the other end is reported
        if not end.poll(0) and not (is_ending(launcher_pid) and end.poll()):
            return False
        # The launcher may still hold its lock on the run folder, which would prevent its removal by a role.
        wait_for_end(launcher_pid, _FLUSH_S)
        return True

    def _send_all(self) -> None:
        while (message := self._unsent.get()) is not None:
            try:
                self._connection.send(message)
            except OSError:
                # The launcher has ended; the reader notices it, too.
                return

    def _read(self, context: RoleContext) -> None:
        try:
            while True:
                take_message(context, self._connection.recv())
        except (EOFError, OSError):
            self._on_orphaned()
            context.stop.set("the launcher ended")


def take_message(context: RoleContext, message: Message) -> None:
    """Process a message of the launcher."""
    if message[0] == "stop":
        context.stop.set("asked by the launcher")
    elif message[0] == "peer":
        context.note_peer(message[1], message[2])


def outcome_of(spec: ChildSpec, context: RoleContext) -> tuple[int, Message | None]:
    """Run the target of a role to its end; return the exit code and the last message to the launcher."""
    try:
        import_in_child(spec.own_code)
        result = spec.role.target(context)
    except BaseException as error:  # noqa: BLE001 - any error of the role's code is reported to the launcher
        permanent = isinstance(error, (PermanentRoleError, ConfigError))
        return 1, ("error", "".join(traceback.format_exception(error)), permanent, _pickled(error))
    return 0, None if result is None else ("result", result)


def child_main(spec: ChildSpec, connection: Connection) -> None:
    """Run a role in this process and exit, with code 0 after a return and 1 after an exception."""
    redirect_output(spec)
    # Children of this process (queues of tensorboardX, envs) may need another start method.
    multiprocessing.set_start_method(None, force=True)
    pipe = RolePipe(connection, lambda: _end_orphan(run_dir))
    context = RoleContext(spec.role, spec.run_dir, spec.token, spec.peers, pipe.send, spec.incarnation)
    _handle_signals(context)
    # For a process that is too busy to read the end of its pipe; its parent, the fork server, ends with the launcher.
    die_with_parent(signal.SIGTERM)
    os.environ[RUN_TOKEN_VARIABLE] = spec.token
    to_user = LogForwarder(pipe.send, spec.show_level)
    logging.getLogger("ding").addHandler(to_user)
    run_dir = RunDir.join(spec.run_dir)
    pipe.begin(context)
    code, message = outcome_of(spec, context)
    if code and message is not None:
        # The launcher shows the traceback if it matters; this line is for the role's log.
        logging.getLogger("ding").removeHandler(to_user)
        logger.error("%s failed:\n%s", spec.role.name, message[1])
    pipe.finish(message)
    logging.shutdown()
    orphaned = pipe.is_orphaned(spec.launcher_pid)
    run_dir.leave(remove_if_last=orphaned)
    sys.stdout.flush()
    sys.stderr.flush()
    if not orphaned:
        # A library thread that never ends must not keep a finished role alive.
        signal.alarm(_EXIT_GRACE_S)
    sys.exit(code)


def _end_orphan(run_dir: RunDir) -> None:
    """Give this process, whose launcher has ended, a few seconds for an orderly end, then end it.

    The process leaves the run folder first, as it may be the last one in it. The alarm works even if a call into C code
    never returns and no other thread runs.
    """

    def end() -> None:
        # otherwise the main thread is about to leave
        if run_dir.leave(remove_if_last=True):
            os.kill(os.getpid(), signal.SIGKILL)

    signal.alarm(ORPHAN_GRACE_S + _EXIT_GRACE_S)
    timer = threading.Timer(ORPHAN_GRACE_S, end)
    timer.daemon = True
    timer.start()


def redirect_output(spec: ChildSpec) -> None:
    """Redirect all output of the process, including native code and crash dumps, to the role's log file."""
    if spec.log_file is not None:
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


def _pickled(error: BaseException) -> bytes | None:
    """Pickle the exception for the launcher; ``None`` if it cannot be pickled and restored."""
    try:
        data: bytes | None = cloudpickle.dumps(error)
        cloudpickle.loads(data)
    except Exception:  # noqa: BLE001 - runs methods of arbitrary exception classes
        return None
    return data


class LogForwarder(logging.Handler):
    """Shows log lines from a certain level on to the user of the launcher; the file contains all lines.

    Args:
        send: Takes a message for the launcher, and whether it may be dropped.
        level: Minimum level.
    """

    def __init__(self, send: Callable[[Message, bool], None], level: int) -> None:
        super().__init__(level)
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        self._send(("log", record.levelno, record.getMessage()), True)


def _handle_signals(context: RoleContext) -> None:
    """Treat the first SIGTERM as a stop request, a second one as a kill. Ctrl-C is handled by the launcher."""
    signal.signal(signal.SIGTERM, first_asks(lambda signum: context.stop.set_soon("SIGTERM")))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The fork server ignores these signals, see ``ding.parallel.launch.process``.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
