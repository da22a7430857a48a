"""Slots ("places") of a buffer's shards, with the replacement of lost shards."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ding.worker.coordinator.buffers.metadata_buffer import ChunkTable
from ding.worker.coordinator.shards.messages import Answer, Message, ShardLink, ShardLost

log = logging.getLogger(__name__)


class Place:
    """Slot of a shard.

    Attributes:
        link: The shard; None if there is none.
        last: Its last answer, without columns.
        chunks: Chunks with rows in the shard, or in a batch in flight.
        missing: Reason why there is no shard, as logged.
    """

    def __init__(self, chunks: ChunkTable) -> None:
        self.link: ShardLink | None = None
        self.last = Answer()
        self.chunks = chunks
        self.missing = ""


class Places:
    """Sends messages to shards, drops the rows of lost shards, and replaces them.

    A shard that fails to answer once is lost; an empty one takes its place. Call every method under :attr:`lock`,
    except :meth:`revive`, :meth:`wait_for_all` and :meth:`close`.

    Args:
        count: Number of places.
        connect: Returns a new, empty shard for a place number; raises `ShardLost` if none is available.
        new_table: Creates the chunk table of a place.
        lost: Called with a place number and the number of lost rows.
        retry_s: Seconds between attempts to replace a shard; None: only on `revive`.
    """

    def __init__(
        self,
        count: int,
        connect: Callable[[int], ShardLink],
        new_table: Callable[[], ChunkTable],
        lost: Callable[[int, int], None],
        retry_s: float | None,
    ) -> None:
        self.lock = threading.RLock()
        self.all = [Place(new_table()) for _ in range(count)]
        self._connect, self._lost, self._retry_s = connect, lost, retry_s
        self._threads: ThreadPoolExecutor | None = None
        self._reviving = threading.Lock()
        self._reviver: threading.Thread | None = None
        self._joined = threading.Condition(self.lock)
        self._closing = threading.Event()
        self.revive()

    @property
    def present(self) -> list[int]:
        """Return the numbers of the places that have a shard."""
        return [number for number, place in enumerate(self.all) if place.link is not None]

    @property
    def rows(self) -> int:
        """Return the number of rows in all shards."""
        return sum(place.last.rows for place in self.all)

    def ask(self, messages: Mapping[int, Message]) -> dict[int, Answer]:
        """Send messages to shards concurrently and return the answers; lost shards have none."""
        numbers = list(messages)
        if len(numbers) > 1 and any(place.link is not None and place.link.remote for place in self.all):
            if self._threads is None:
                self._threads = ThreadPoolExecutor(len(self.all), thread_name_prefix="shards")
            results = list(self._threads.map(lambda number: self._ask(number, messages[number]), numbers))
        else:
            results = [self._ask(number, messages[number]) for number in numbers]
        answers = {}
        for number, result in zip(numbers, results):
            if isinstance(result, ShardLost):
                self._lose(number, result)
                continue
            place, left = self.all[number], result.left.reshape(-1, 2)
            place.last = Answer(result.rows, result.mass, result.smallest, result.largest)
            place.chunks.drop_rows(np.repeat(left[:, 0], left[:, 1]))
            answers[number] = result
        return answers

    def ask_all(self, message: Message) -> dict[int, Answer]:
        """Send the same message to all present shards."""
        return self.ask(dict.fromkeys(self.present, message))

    def _ask(self, number: int, message: Message) -> Answer | ShardLost:
        link = self.all[number].link
        try:
            return ShardLost("it is not there") if link is None else link.ask(message)
        except ShardLost as error:
            return error

    def _lose(self, number: int, error: ShardLost) -> None:
        place = self.all[number]
        link, place.link, place.last = place.link, None, Answer()
        rows = place.chunks.drop_all()
        if link is not None or rows:
            text = "shard %d of a replay buffer is lost with %d rows (%s); sampling goes on without them"
            log.warning(text, number, rows, error)
            self._lost(number, rows)
        if link is not None:
            link.close()
        self._revive_soon()

    def release_unused(self) -> None:
        """Release unused chunks."""
        for place in self.all:
            place.chunks.release_unused()

    # ------------------------------------------------------------------ new shards

    def revive(self) -> None:
        """Try to get a shard for each empty place."""
        with self._reviving:
            for number, place in enumerate(self.all):
                if place.link is not None or self._closing.is_set():
                    continue
                try:
                    link = self._connect(number)
                except ShardLost as error:
                    if str(error) != place.missing:
                        place.missing = str(error)
                        log.info("there is no shard %d of a replay buffer: %s", number, error)
                    self._revive_soon()
                    continue
                with self.lock:
                    place.link, place.missing = link, ""
                    self._joined.notify_all()
                log.info("shard %d of a replay buffer is there, and empty", number)

    def _revive_soon(self) -> None:
        with self.lock:
            busy = self._reviver is not None
            if busy or self._retry_s is None or self._closing.is_set():
                return
            self._reviver = threading.Thread(target=self._revive_all, name="shard-reviver", daemon=True)
            self._reviver.start()

    def _revive_all(self) -> None:
        assert self._retry_s is not None
        while not self._closing.wait(self._retry_s):
            self.revive()
            with self.lock:
                if len(self.present) == len(self.all):
                    self._reviver = None
                    return

    def wait_for_all(self, timeout_s: float) -> None:
        """Wait up to ``timeout_s`` seconds until each place has a shard; no wait if shards come only on `revive`."""
        with self._joined:
            if self._retry_s is not None:
                self._joined.wait_for(lambda: len(self.present) == len(self.all), timeout_s)

    def close(self) -> None:
        """Close all shards and drop their rows."""
        self._closing.set()
        with self._reviving, self.lock:
            for place in self.all:
                link, place.link, place.last = place.link, None, Answer()
                place.chunks.drop_all()
                if link is not None:
                    link.close()
            self.release_unused()
        if self._threads is not None:
            self._threads.shutdown(wait=False)
