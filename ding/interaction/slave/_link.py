"""The connection of a slave to its master, and how a slave announces itself until a master connects."""

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
# A master connects back at once; when it has not after this time, the slave enrols again.
_CONNECT_WAIT_S = 5.0


@dataclass(eq=False)
class Link:
    """A connection: made by ``/connect``, over with ``/disconnect`` or when the master is lost."""

    token: str
    master_address: str
    client: Client


class LinkState:
    """The current link, if any. All methods are atomic; waiting is woken by every change."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._link: Link | None = None
        self._closed = False

    @property
    def current(self) -> Link | None:
        """The link, or None while no master is connected."""
        return self._link

    def set_if_free(self, make: Callable[[], Link]) -> bool:
        """Take the link that ``make`` makes, unless there is one; returns whether it was taken."""
        with self._changed:
            if self._link is not None or self._closed:
                return False
            self._link = make()
            self._changed.notify_all()
            return True

    def drop(self, link: Link) -> bool:
        """Forget ``link``; returns False when it was not the current one any more."""
        with self._changed:
            if self._link is not link:
                return False
            self._link = None
            self._changed.notify_all()
        link.client.close()
        return True

    def close(self) -> Link | None:
        """Wake all waiters for good; returns the link that was current."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            return self._link

    def wait_linked(self, timeout_s: float | None = None, in_vain: Callable[[], bool] = lambda: False) -> Link | None:
        """Wait for a link; None when there is none in time, when ``in_vain()`` (see ``wake``), or after ``close``."""
        with self._changed:
            self._changed.wait_for(lambda: self._link is not None or self._closed or in_vain(), timeout_s)
            return None if self._closed else self._link

    def wake(self) -> None:
        """Have all waiters look again."""
        with self._changed:
            self._changed.notify_all()

    def wait_unlinked(self, timeout_s: float | None = None) -> bool:
        """Wait until there is no link; False when there still is one, or after ``close``."""
        with self._changed:
            self._changed.wait_for(lambda: self._link is None or self._closed, timeout_s)
            return self._link is None and not self._closed

    def wait_changed(self, link: Link, timeout_s: float) -> bool:
        """Wait up to ``timeout_s`` while ``link`` is the current one; returns whether it still is."""
        with self._changed:
            self._changed.wait_for(lambda: self._link is not link or self._closed, timeout_s)
            return self._link is link and not self._closed

    def wait_closed(self, timeout_s: float) -> bool:
        """Wait up to ``timeout_s`` for ``close``; returns whether it was called."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed, timeout_s)


class Announcer:
    """Sends ``POST /slave/enrol`` whenever there is no connection: at once, then less and less often (0.1 to 2 s).

    An answer that refuses the worker ends it: ``refused(error)`` is called, once. A master that has no time, or that
    failed itself, does not refuse.
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
            except ServiceClosed:
                return
            except (UnreachableError, ResponseException) as error:
                if isinstance(error, UnreachableError) or _is_passing(error):
                    # Once is enough: it is tried for as long as it takes. The end of a run is no news.
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
    """Return whether the same request may be answered well later."""
    return isinstance(error, MasterSystemShuttingDown) or error.status_code in (408, 429) or error.status_code >= 500
