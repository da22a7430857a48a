"""Connection of a slave to its master, and the announcements of a slave until a master connects."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ding.interaction.base.transport import Client
from ding.interaction.errors import ServiceClosed, UnreachableError
from ding.interaction.exception.response import MasterSystemShuttingDown, ResponseException
from ding.interaction.messages import Enrol

log = logging.getLogger(__name__)

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0
# Seconds after which a slave enrols again if the master has not connected back.
_CONNECT_WAIT_S = 5.0


@dataclass(eq=False)
class Link:
    """A connection: begins with ``/connect``, ends with ``/disconnect`` or when the master is lost."""

    token: str
    master_address: str
    client: Client


class LinkState:
    """The current link, if any. All methods are atomic; every change wakes the waiting threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._link: Link | None = None
        self._closed = False

    @property
    def current(self) -> Link | None:
        """The link, or None while no master is connected."""
        return self._link

    def set_if_free(self, make: Callable[[], Link]) -> bool:
        """Set the link made by ``make`` unless there is one; return whether it was set."""
        with self._changed:
            if self._link is not None or self._closed:
                return False
            self._link = make()
            self._changed.notify_all()
            return True

    def drop(self, link: Link) -> bool:
        """Remove ``link``; return False if it was no longer the current one."""
        with self._changed:
            if self._link is not link:
                return False
            self._link = None
            self._changed.notify_all()
        link.client.close()
        return True

    def close(self) -> Link | None:
        """Wake all waiters for good; return the current link."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            return self._link

    def wait_linked(self, timeout_s: float | None = None, in_vain: Callable[[], bool] = lambda: False) -> Link | None:
        """Wait for a link; return None on time-out, when ``in_vain()`` (see ``wake``), or after ``close``."""
        with self._changed:
            self._changed.wait_for(lambda: self._link is not None or self._closed or in_vain(), timeout_s)
            return None if self._closed else self._link

    def wake(self) -> None:
        """Make all waiters check again."""
        with self._changed:
            self._changed.notify_all()

    def wait_unlinked(self, timeout_s: float | None = None) -> bool:
        """Wait until there is no link; return False on time-out or after ``close``."""
        with self._changed:
            self._changed.wait_for(lambda: self._link is None or self._closed, timeout_s)
            return self._link is None and not self._closed

    def wait_changed(self, link: Link, timeout_s: float) -> bool:
        """Wait up to ``timeout_s`` while ``link`` is the current one; return whether it still is."""
        with self._changed:
            self._changed.wait_for(lambda: self._link is not link or self._closed, timeout_s)
            return self._link is link and not self._closed

    def wait_closed(self, timeout_s: float) -> bool:
        """Wait up to ``timeout_s`` for ``close``; return whether it was called."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed, timeout_s)


class Announcer:
    """Send ``POST /slave/enrol`` while there is no connection, with increasing intervals (0.1 to 2 s).

    An answer that refuses the worker stops it and calls ``refused(error)`` once. A busy or failed master does not count
    as a refusal.
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
        """Start announcing."""
        self._thread.start()

    def close(self) -> None:
        """Stop announcing; the link state must be closed already."""
        self._client.close()

    def _run(self) -> None:
        waiting = _FIRST_WAIT_S
        while self._state.wait_unlinked():
            try:
                self._client.request("POST", "/slave/enrol", self._message)
            except ServiceClosed:
                return
            except (UnreachableError, ResponseException) as error:
                if isinstance(error, UnreachableError) or _is_passing(error):
                    # Log it once: it is retried for as long as necessary. The end of a run is not worth a message.
                    is_news = waiting == _FIRST_WAIT_S and not isinstance(error, MasterSystemShuttingDown)
                    log.log(logging.INFO if is_news else logging.DEBUG, "could not enrol: %s", error)
                    self._state.wait_closed(waiting)
                    waiting = min(_LONGEST_WAIT_S, 2 * waiting)
                    continue
                self.error = error
                self._state.wake()
                self._refused(error)
                return
            else:
                self.count += 1
                waiting = _FIRST_WAIT_S
                self._state.wait_linked(_CONNECT_WAIT_S)


def _is_passing(error: ResponseException) -> bool:
    """Return whether retrying the same request may succeed."""
    return isinstance(error, MasterSystemShuttingDown) or error.status_code in (408, 429) or error.status_code >= 500
