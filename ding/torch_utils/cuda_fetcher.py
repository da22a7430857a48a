"""Moving batches to a device ahead of their use."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from queue import Empty, Full, Queue
from typing import Any

import torch

from ding.torch_utils._convert import to_device

_WAKE_S = 0.1


def _record_stream(item: Any, stream: torch.cuda.Stream) -> None:
    """Tell the allocator that ``stream`` uses these tensors, so that it does not hand out their memory too early."""
    if isinstance(item, torch.Tensor):
        if item.is_cuda:
            item.record_stream(stream)
    elif isinstance(item, Mapping):
        for value in item.values():
            _record_stream(value, stream)
    elif isinstance(item, (list, tuple)):
        for value in item:
            _record_stream(value, stream)


class CudaFetcher:
    """Takes items from an iterable in a thread and puts their tensors on ``device`` while the caller computes.

    On a CUDA device the copies run in a stream of their own. ``run()`` starts the thread; iteration yields the moved
    items in order and ends when the source ends; an error of the source is raised at ``next()``. ``close()`` ends the
    thread and may be called at any time. ``queue_size`` bounds how many items wait on the device. ``sleep`` is
    accepted for compatibility and unused: the thread waits on the queue itself.
    """

    def __init__(
        self, data_source: Iterable[Any], device: str | torch.device, queue_size: int = 4, sleep: float = 0.1
    ) -> None:
        if queue_size < 1:
            raise ValueError(f"queue_size must be at least 1, got {queue_size}")
        self._source = iter(data_source)
        self._device = torch.device(device)
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        self._queue: Queue[tuple[str, Any]] = Queue(maxsize=queue_size)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._ended = False

    def run(self) -> None:
        """Start fetching. Raises ``RuntimeError`` when already running or closed."""
        if self._thread is not None or self._closed.is_set():
            raise RuntimeError("CudaFetcher.run() may be called once and not after close()")
        self._thread = threading.Thread(target=self._fetch, name="cuda-fetcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop fetching and drop what waits. Safe to call twice."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        while True:
            if self._closed.is_set() or self._thread is None:
                raise RuntimeError("CudaFetcher is not running: call run() first")
            try:
                kind, value = self._queue.get(timeout=_WAKE_S)
            except Empty:
                continue
            break
        if kind == "item":
            return self._ready(value)
        self._ended = True
        if kind == "error":
            raise value
        raise StopIteration

    def _ready(self, value: tuple[Any, torch.cuda.Event | None]) -> Any:
        item, event = value
        if event is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(event)
            _record_stream(item, stream)
        return item

    def _fetch(self) -> None:
        try:
            for item in self._source:
                if not self._put(("item", self._move(item))):
                    return
        except Exception as error:  # noqa: BLE001 - handed to the consumer, which raises it
            self._put(("error", error))
            return
        self._put(("end", None))

    def _move(self, item: Any) -> tuple[Any, torch.cuda.Event | None]:
        if self._stream is None:
            return to_device(item, self._device), None
        with torch.cuda.stream(self._stream):
            moved = to_device(item, self._device)
            event = torch.cuda.Event()
            event.record(self._stream)
        return moved, event

    def _put(self, entry: tuple[str, Any]) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(entry, timeout=_WAKE_S)
            except Full:
                continue
            return True
        return False
