"""A role in the process that the user started, without a launcher: for several machines."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from ding.entry._role_child import TOKEN_VARIABLE, StopRequest
from ding.entry._signals import STOP_SIGNALS

logger = logging.getLogger("ding.entry")


class LocalContext:
    """Has the methods of a `RoleContext`; what would go to a launcher goes to ``on_status`` and the log.

    Args:
        name: The role.
        payload: As of a `Role`.
        run_dir: Folder for the coordinator's journal.
        token: The run's token.
        peers: What is known of other roles.
        on_status: Called with each status.
    """

    def __init__(
        self,
        name: str,
        payload: Any,
        run_dir: str,
        token: str,
        peers: dict[str, Any],
        on_status: Callable[[Any], None] | None = None,
    ) -> None:
        self.name = name
        self.incarnation = 0
        self.payload = payload
        self.run_dir = run_dir
        self.token = token
        self.stop = StopRequest()
        self.signum: int | None = None
        self._peers = peers
        self._on_status = on_status

    def announce(self, data: Any) -> None:
        """Log where the role can be reached."""
        logger.info("%s: %s", self.name, data.get("address", data))

    def progress(self) -> None:
        """Nobody counts failures here."""

    def status(self, data: Any) -> None:
        """Show a status."""
        if self._on_status is not None:
            self._on_status(data)

    def peers(self) -> dict[str, Any]:
        """What is known of other roles."""
        return dict(self._peers)

    def wait_for_peer(self, name: str, timeout_s: float) -> Any:
        """Return what is known of ``name``.

        Raises:
            TimeoutError: Nothing.
        """
        if name not in self._peers:
            raise TimeoutError(f"{self.name}: nobody said where {name} is")
        return self._peers[name]

    def on_peer(self, callback: Callable[[str, Any], None]) -> None:
        """Other roles tell nothing here."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Have SIGINT and SIGTERM ask this role to stop, a second one end it at once; set the token meanwhile."""
        before = os.environ.get(TOKEN_VARIABLE)
        os.environ[TOKEN_VARIABLE] = self.token
        handlers: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.environ.pop(TOKEN_VARIABLE)
            if before is not None:
                os.environ[TOKEN_VARIABLE] = before

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
            return
        self.signum = signum
        # The handler runs in the main thread, which may hold any lock just now.
        threading.Thread(target=self.stop.set, args=(signal.Signals(signum).name,), daemon=True).start()
