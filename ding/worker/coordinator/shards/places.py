"""The places of the shards of a buffer: which shards are there, and what happens when one is lost."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ding.worker.coordinator.buffers.metadata_buffer import ChunkTable
from ding.worker.coordinator.shards.messages import Answer, Message, ShardLink, ShardLost

log = logging.getLogger(__name__)


class Place:
    """The place of a shard.

    Attributes:
        link: the shard; None while there is none.
        last: its last answer, without columns.
        chunks: those of which it has rows, or had some when they were drawn for a batch that is on its way.
        missing: why there is none, as it was logged.
    """

    def __init__(self, chunks: ChunkTable) -> None:
        self.link: ShardLink | None = None
        self.last = Answer()
        self.chunks = chunks
        self.missing = ""


class Places:
    """Asks shards, forgets the rows of those that are lost, and takes new ones in their places.

    A shard that does not answer once is lost: another one, which is empty, comes in its place. Every method is called
    under :attr:`lock`, except :meth:`revive`, :meth:`wait_for_all` and :meth:`close`.

    Args:
        count: of the places.
        connect: returns a new, empty shard for the place of a number; raises `ShardLost` while none can be had.
        new_table: makes the table of the chunks of a place.
        lost: called with the number of a place and the number of rows that were lost.
        retry_s: seconds between two tries to get a new shard; None: `revive` is called by others alone.
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
        """The numbers of the places that have a shard."""
        return [number for number, place in enumerate(self.all) if place.link is not None]

    @property
    def rows(self) -> int:
        """Number of rows in all shards."""
        return sum(place.last.rows for place in self.all)

    def ask(self, messages: Mapping[int, Message]) -> dict[int, Answer]:
        """Send messages to the shards of places, all at once; returns the answers. Those that are lost have none."""
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
        """Send the same message to all shards that are there."""
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
        """Hand over the chunks that nobody needs any more."""
        for place in self.all:
            place.chunks.release_unused()

    # ------------------------------------------------------------------ new shards

    def revive(self) -> None:
        """Try to get a shard for each place that has none."""
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
        """Wait until each place has a shard, or up to ``timeout_s`` seconds; not where `revive` is called by others."""
        with self._joined:
            if self._retry_s is not None:
                self._joined.wait_for(lambda: len(self.present) == len(self.all), timeout_s)

    def close(self) -> None:
        """End all shards; their rows are dropped."""
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
