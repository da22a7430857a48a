"""A loader that makes the next batches while the current one is used.

Exceptions::

    RuntimeError
    └── LoaderError           the data source failed; ``__cause__`` is what it raised
    TimeoutError              no batch came within ``timeout_s``
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from ding.utils.data.collate_fn import default_collate

log = logging.getLogger(__name__)
_JOIN_TIMEOUT_S = 10.0


class LoaderError(RuntimeError):
    """The data source of a loader raised; see ``__cause__``."""


class AsyncDataLoader:
    """Iterate over batches that a thread prepares ahead, in order.

    The thread calls the source, runs what it returns, collates, and moves the batch to the device. At most
    ``2 * max(1, num_workers)`` batches wait; then it pauses. So the source is called ahead of consumption.

    Concurrency: one thread may iterate while any thread calls ``close``. ``next`` waits on a condition, not by polling.

    Args:
        data_source: ``data_source(batch_size)`` gives a list of samples, or a list of functions without arguments that
            give one sample each; None ends the iteration.
        batch_size: samples per batch.
        device: where batches go; anything but a ``cuda`` device leaves them.
        chunk_size: kept for the config; must divide ``batch_size``.
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
        self._source = data_source
        self._collate = collate_fn if collate_fn is not None else default_collate
        self._device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        self._capacity = 2 * max(1, num_workers)
        self._batches: deque[Any] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._exhausted = False
        self._error: BaseException | None = None
        self._pool = ThreadPoolExecutor(num_workers, "dataloader-worker") if num_workers > 1 else None
        self._thread = threading.Thread(target=self._run, name="dataloader", daemon=True)
        self._thread.start()

    def __iter__(self) -> AsyncDataLoader:
        return self

    def __next__(self) -> Any:
        """The next batch; None after ``close`` or after the source gave None.

        Raises:
            LoaderError: the source failed. Batches made before that are given first.
            TimeoutError: none came within ``timeout_s``.
        """
        deadline = None if self.timeout_s is None else time.monotonic() + self.timeout_s
        with self._changed:
            while not (self._batches or self._closed or self._exhausted or self._error):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"no batch came within {self.timeout_s} s")
                self._changed.wait(left)
            if self._closed:
                return None
            if self._batches:
                batch = self._batches.popleft()
                self._changed.notify_all()
                return batch
            if self._error is not None:
                raise LoaderError(f"the data source failed: {self._error!r}") from self._error
            return None

    def close(self) -> None:
        """Stop preparing and drop what waits; a waiting ``next`` returns None. May be called again.

        A source that is blocked is waited for ten seconds at most; its thread is a daemon.
        """
        with self._changed:
            already = self._closed
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()
        if already:
            return
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_TIMEOUT_S)
            if self._thread.is_alive():
                log.warning("the data source did not return within %s s after close", _JOIN_TIMEOUT_S)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> AsyncDataLoader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            while self._wait_for_space():
                batch = self._make_batch()
                with self._changed:
                    if batch is None:
                        self._exhausted = True
                    elif not self._closed:
                        self._batches.append(batch)
                    self._changed.notify_all()
                if batch is None:
                    return
        except BaseException as error:  # noqa: BLE001 - next() raises it in the consumer
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _wait_for_space(self) -> bool:
        """Wait until a batch fits; False when the loader was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._batches) < self._capacity)
            return not self._closed

    def _make_batch(self) -> Any:
        samples = self._source(self.batch_size)
        if samples is None:
            return None
        if len(samples) > 0 and callable(samples[0]):
            samples = list(self._pool.map(lambda fn: fn(), samples)) if self._pool else [fn() for fn in samples]
        batch = self._collate(samples)
        return _to_device(batch, self._device) if self._device.type == "cuda" else batch


def _to_device(batch: Any, device: torch.device) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {key: _to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_to_device(value, device) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_to_device(value, device) for value in batch)
    return batch
