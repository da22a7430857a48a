"""A slave announces itself until a master connects."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ding.interaction.base.transport import Client
from ding.interaction.errors import ServiceClosed, UnreachableError
from ding.interaction.exception.master import MasterSystemShuttingDown
from ding.interaction.exception.response import ResponseException
from ding.interaction.messages import Enrol
from ding.interaction.slave._link import LinkState

log = logging.getLogger(__name__)

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0
# A master connects back at once; when it has not after this time, it is asked again.
_CONNECT_WAIT_S = 5.0


class Announcer:
    """Sends ``POST /slave/enrol`` whenever there is no connection: at once, then less and less often (0.1 to 2 s).

    An answer that refuses the worker ends it: ``refused(error)`` is called, once.
    """

    def __init__(self, client: Client, message: Enrol, state: LinkState, refused: Callable[[Exception], None]) -> None:
        self.count = 0
        self._client = client
        self._message = message
        self._state = state
        self._refused = refused
        self.error: ResponseException | None = None
        self._thread = threading.Thread(target=self._run, name="enrol", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """No further announcements; the link state must be closed already."""
        self._client.close()

    def _run(self) -> None:
        waiting = _FIRST_WAIT_S
        while self._state.wait_unlinked():
            try:
                self._client.request("POST", "/slave/enrol", self._message)
            except (UnreachableError, MasterSystemShuttingDown) as error:
                # Once is enough: it is tried for as long as it takes.
                log.log(logging.INFO if waiting == _FIRST_WAIT_S else logging.DEBUG, "could not enrol: %s", error)
                self._state.wait_closed(waiting)
                waiting = min(_LONGEST_WAIT_S, 2 * waiting)
            except ServiceClosed:
                return
            except ResponseException as error:
                self.error = error
                self._state.wake()
                self._refused(error)
                return
            else:
                self.count += 1
                waiting = _FIRST_WAIT_S
                self._state.wait_linked(_CONNECT_WAIT_S)
