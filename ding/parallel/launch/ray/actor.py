"""Actor that runs a role, the counterpart of ``ding.parallel.launch.ray.spawner``."""

import logging
import multiprocessing.spawn
import os
import queue
import signal
import threading
from collections.abc import Iterator
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ding.parallel.launch.child import ChildSpec, LogForwarder, outcome_of, redirect_output, take_message
from ding.parallel.launch.role import Message, RoleContext
from ding.parallel.launch.run_dir import RunDir
from ding.parallel.launch.signals import first_asks
from ding.utils.credentials import RUN_TOKEN_VARIABLE

logger = logging.getLogger("ding.entry")

BEGUN = "begun"
"""First message of a process: ``("begun", pid)``."""

EXIT = "exit"
"""Last message of a process that did not die: ``("exit", code)``."""

_MAX_UNSENT = 1000


class RoleActor:
    """Runs one role once.

    Args:
        home: Data that ``multiprocessing`` passes to a new process: module paths, working directory, main script.
    """

    def __init__(self, home: dict[str, Any]) -> None:
        if not os.path.isdir(home.get("dir", "")):
            home = {key: value for key, value in home.items() if key != "dir"}
        multiprocessing.spawn.prepare(home)
        self._messages: queue.Queue[Message | None] = queue.Queue(_MAX_UNSENT)
        self._context: RoleContext | None = None
        # An actor is created in the main thread. The head of an own cluster blocks the signal.
        signal.signal(signal.SIGTERM, first_asks(self._on_sigterm))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    def run(self, data: bytes) -> Iterator[Message]:
        """Run the role and yield its messages to the launcher.

        Args:
            data: A ``ChildSpec``, pickled by cloudpickle.
        """
        spec: ChildSpec = cloudpickle.loads(data)
        if spec.log_file is not None and not os.path.isdir(os.path.dirname(spec.log_file)):
            # The node does not share the experiment directory: log to the folder in which Ray keeps its logs.
            spec = ChildSpec(**{**vars(spec), "log_file": None})
        redirect_output(spec)
        os.environ[RUN_TOKEN_VARIABLE] = spec.token
        role = spec.role
        context = RoleContext(role, spec.run_dir, spec.token, spec.peers, self._send, spec.incarnation)
        self._context = context
        yield (BEGUN, os.getpid())
        threading.Thread(target=self._work, args=(spec, context), name=role.name, daemon=True).start()
        while (message := self._messages.get()) is not None:
            yield message

    def deliver(self, message: Message) -> None:
        """Process a message of the launcher."""
        if self._context is not None:
            take_message(self._context, message)

    def _on_sigterm(self, signum: int) -> None:
        if self._context is not None:
            self._context.stop.set_soon("SIGTERM")

    def _work(self, spec: ChildSpec, context: RoleContext) -> None:
        # Processes that the role starts inherit the signal mask of this thread.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        to_user = LogForwarder(self._send, spec.show_level)
        logging.getLogger("ding").addHandler(to_user)
        run_dir = RunDir.join(spec.run_dir)
        code, message = outcome_of(spec, context)
        logging.getLogger("ding").removeHandler(to_user)
        if code and message is not None:
            logger.error("%s failed:\n%s", spec.role.name, message[1])
        run_dir.leave(remove_if_last=False)
        if message is not None:
            self._messages.put(message)
        self._messages.put((EXIT, code))
        self._messages.put(None)

    def _send(self, message: Message, droppable: bool) -> None:
        if droppable and self._messages.full():
            return
        self._messages.put(message)
