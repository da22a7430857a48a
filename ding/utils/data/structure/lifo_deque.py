"""A thread-safe stack that drops its oldest items."""

from collections import deque
from queue import LifoQueue
from typing import Any


class LifoDeque(LifoQueue[Any]):
    """A ``queue.LifoQueue`` whose ``put`` never blocks: a full queue drops its oldest item.

    Arguments:
        maxsize: Maximum number of items; 0 for no limit.
    """

    def _init(self, maxsize: int) -> None:
        self._items: deque[Any] = deque(maxlen=maxsize if maxsize > 0 else None)
        # The queue would block in `put` at its own size; the deque holds the bound instead.
        self.maxsize = 0

    def _qsize(self) -> int:
        return len(self._items)

    def _put(self, item: Any) -> None:
        if len(self._items) == self._items.maxlen:
            # For `join`: the dropped item will never be taken.
            self.unfinished_tasks -= 1
        self._items.append(item)

    def _get(self) -> object:
        return self._items.pop()
