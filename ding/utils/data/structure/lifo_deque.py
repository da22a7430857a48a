"""A stack between threads that drops its oldest items."""

from collections import deque
from queue import LifoQueue
from typing import Any


class LifoDeque(LifoQueue[Any]):
    """A ``queue.LifoQueue`` whose ``put`` never waits: where it is full, the oldest item goes.

    Arguments:
        maxsize: items held at most; 0 for any number.
    """

    def _init(self, maxsize: int) -> None:
        self._items: deque[Any] = deque(maxlen=maxsize if maxsize > 0 else None)
        # The queue waits in `put` at a size of its own; the deque has the bound instead.
        self.maxsize = 0

    def _qsize(self) -> int:
        return len(self._items)

    def _put(self, item: Any) -> None:
        if len(self._items) == self._items.maxlen:
            # For `join`: nobody will take the oldest item.
            self.unfinished_tasks -= 1
        self._items.append(item)

    def _get(self) -> object:
        return self._items.pop()
