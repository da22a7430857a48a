"""Prefetching in a background thread: of arbitrary items, and of batches of samples.

Exceptions::

    RuntimeError
    └── LoaderError           the data source failed; ``__cause__`` is what it raised
    TimeoutError              no batch came within ``timeout_s``
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

import torch

from ding.utils.data.collate_fn import default_collate
from ding.utils.nested import map_nested

log = logging.getLogger(__name__)
T = TypeVar("T")
_JOIN_TIMEOUT_S = 10.0


class LoaderError(RuntimeError):
    """The data source of a loader raised an error; see ``__cause__``."""


class Prefetcher(Generic[T]):
    """Call ``produce`` in a thread, at most ``capacity`` results ahead. ``StopIteration`` ends it.

    Concurrency: one thread may call ``take`` while any thread calls ``close``. Both sides wait on a condition.
    """

    def __init__(self, produce: Callable[[], T], capacity: int, name: str) -> None:
        self._produce = produce
        self._capacity = capacity
        self._ready: deque[T] = deque()
        self._changed = threading.Condition()
        self._end: BaseException | None = None
        self.closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def take(self, timeout_s: float | None = None) -> T:
        """Return the next result.

        Raises:
            StopIteration: There are no more results, or the prefetcher is closed.
            LoaderError: ``produce`` failed. Earlier results are returned first.
            TimeoutError: No result arrived within ``timeout_s`` seconds (None: no limit).
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._ready or self.closed or self._end is not None, timeout_s):
                raise TimeoutError(f"no batch came within {timeout_s} s")
            if self._ready:
                self._changed.notify_all()
                return self._ready.popleft()
            if self.closed or isinstance(self._end, StopIteration):
                raise StopIteration
            raise LoaderError(f"the data source failed: {self._end!r}") from self._end

    def close(self, timeout_s: float | None = None) -> None:
        """Stop and drop waiting results. Wait ``timeout_s`` seconds (None: no limit) for the thread. May be called
        repeatedly.
        """
        with self._changed:
            self.closed = True
            self._ready.clear()
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                log.warning("the data source did not return within %s s after close", timeout_s)

    def _run(self) -> None:
        while self._wait_for_space():
            try:
                result = self._produce()
            except BaseException as error:  # noqa: BLE001 - take() raises it in the consumer
                with self._changed:
                    self._end = error
                    self._changed.notify_all()
                return
            with self._changed:
                if not self.closed:
                    self._ready.append(result)
                    self._changed.notify_all()

    def _wait_for_space(self) -> bool:
        """Wait for room for one result; return False once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or len(self._ready) < self._capacity)
            return not self.closed


class AsyncDataLoader:
    """Iterate over batches that a thread prepares ahead, in order.

    The thread calls the source, runs the functions it returns, collates, and moves the batch to the device. It pauses
    while ``2 * max(1, num_workers)`` batches are waiting, so the source is called ahead of consumption.

    Concurrency: one thread may iterate while any thread calls ``close``.

    Args:
        data_source: ``data_source(batch_size)`` gives a list of samples, or a list of functions without arguments that
            give one sample each; None ends the iteration.
        batch_size: Samples per batch.
        device: Device that batches are moved to; only ``cuda`` devices have an effect.
        chunk_size: Accepted for compatibility; must divide ``batch_size``.
        collate_fn: list of samples -> batch; ``default_collate`` by default.
        num_workers: threads that run the functions; with 0 or 1 the preparing thread does.
        timeout_s: seconds that ``next`` waits at most; None waits until a batch, a failure or ``close``.

    Raises:
        ValueError: ``num_workers`` is negative, or ``chunk_size`` does not divide ``batch_size``.
    """

    def __init__(
        self,
        data_source: Callable[[int], Sequence[Any] | None],
        batch_size: int,
        device: str | int | torch.device,
        chunk_size: int | None = None,
        collate_fn: Callable[[Sequence[Any]], Any] | None = None,
        num_workers: int = 0,
        timeout_s: float | None = None,
    ) -> None:
        if num_workers < 0:
            raise ValueError(f"num_workers must be >= 0, got {num_workers}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if chunk_size is not None and (chunk_size < 1 or batch_size % chunk_size != 0):
            raise ValueError(f"chunk_size must divide batch_size {batch_size}, got {chunk_size}")
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(num_workers, "dataloader-worker") if num_workers > 1 else None
        target = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        # The thread holds no reference to the loader, so garbage collection of the loader ends it.
        make = partial(_make_batch, data_source, batch_size, collate_fn or default_collate, target, self._pool)
        self._batches = Prefetcher(make, 2 * max(1, num_workers), "dataloader")

    def __iter__(self) -> "AsyncDataLoader":
        return self

    def __next__(self) -> Any:
        """Return the next batch; None after ``close`` or after the source returned None.

        Raises:
            LoaderError: The source failed. Earlier batches are returned first.
            TimeoutError: No batch arrived within ``timeout_s``.
        """
        try:
            return self._batches.take(self.timeout_s)
        except StopIteration:
            return None

    def close(self) -> None:
        """Stop preparing and drop waiting batches; a blocked ``next`` returns None. May be called repeatedly.

        Waits at most ten seconds for a blocked source; its thread is a daemon.
        """
        if self._batches.closed:
            return
        self._batches.close(_JOIN_TIMEOUT_S)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def __del__(self) -> None:
        # A constructor that failed early leaves nothing to close.
        if hasattr(self, "_batches") and hasattr(self, "_pool"):
            self.close()

    def __enter__(self) -> "AsyncDataLoader":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _make_batch(
    source: Callable[[int], Sequence[Any] | None],
    batch_size: int,
    collate: Callable[[Sequence[Any]], Any],
    device: torch.device,
    pool: ThreadPoolExecutor | None,
) -> object:
    samples = source(batch_size)
    if samples is None:
        raise StopIteration
    if len(samples) > 0 and callable(samples[0]):
        samples = list(pool.map(lambda fn: fn(), samples)) if pool else [fn() for fn in samples]
    batch = collate(samples)
    return _to_device(batch, device) if device.type == "cuda" else batch


def _to_device(batch: object, device: torch.device) -> object:
    return map_nested(
        lambda leaf: leaf.to(device, non_blocking=True) if isinstance(leaf, torch.Tensor) else leaf, batch
    )
