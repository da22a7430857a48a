"""What an on-policy collector may do: so many steps with this version of the policy."""

import threading
from collections.abc import Mapping


class Grants:
    """Takes the grants of a coordinator and holds the collector back while it has none. Thread-safe.

    A grant ``{'id', 'version', 'steps'}`` is for so many env steps with a version of the policy. One that comes twice
    is one; a newer one takes the place of what is left of the one before.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._grant: Mapping[str, int] | None = None
        self._last_id = -1
        self._closed = False

    def offer(self, grant: Mapping[str, int]) -> None:
        """Take a grant, unless it is known."""
        with self._changed:
            if grant["id"] > self._last_id:
                self._last_id, self._grant = grant["id"], grant
                self._changed.notify_all()

    def wait(self) -> Mapping[str, int] | None:
        """The newest grant, which is not used up; waits for one. ``None`` after :meth:`close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._grant is not None or self._closed)
            return None if self._closed else self._grant

    def use_up(self, grant: Mapping[str, int]) -> None:
        """The steps of this grant are made."""
        with self._changed:
            if self._grant is grant:
                self._grant = None

    def close(self) -> None:
        """Wake who waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
