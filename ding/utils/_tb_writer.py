"""A tensorboardX writer that costs nothing until the first value is written, and scalars that are written together."""

from __future__ import annotations

import re
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

# Tags that tensorboardX leaves as they are; in others it replaces characters.
_PLAIN_TAG = re.compile(r"[-\w.][-/\w.]*", re.ASCII)
_NO_COMET = {"disabled": True}


class LazyWriter:
    """Looks like ``tensorboardX.SummaryWriter``; imports it and makes its file at the first ``add_*``.

    Every ``add_*`` method of the ``SummaryWriter`` is available. Safe to share between threads.

    Args:
        logdir: folder of the event files; made when first needed.
        kwargs: passed on to the ``SummaryWriter``.
    """

    def __init__(self, logdir: str | None = None, **kwargs: Any) -> None:
        self.logdir = logdir
        self._kwargs = kwargs
        self._writer: Any = None
        self._finalizer: weakref.finalize | None = None
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("add_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def add(*args: Any, **kwargs: Any) -> None:
            self._add(name, *args, **kwargs)

        add.__name__ = name
        return add

    def _add(self, fn_name: str, *args: Any, **kwargs: Any) -> None:
        getattr(self._opened(), fn_name)(*args, **kwargs)

    def _opened(self) -> Any:
        with self._lock:
            if self._writer is None:
                from tensorboardX import SummaryWriter

                self._writer = SummaryWriter(self.logdir, **self._kwargs)
                self.logdir = self._writer.logdir
                # Also runs at interpreter exit, so that the last values reach the disk.
                self._finalizer = weakref.finalize(self, self._writer.close)
            return self._writer

    @property
    def is_open(self) -> bool:
        """Whether something was written since the start or the last ``close``."""
        return self._writer is not None

    def flush(self) -> None:
        """Bring what was written to the disk."""
        with self._lock:
            if self._writer is not None:
                self._writer.flush()

    def close(self) -> None:
        """Close the file, if there is one. A later ``add_*`` begins a new file in the same folder."""
        with self._lock:
            if self._finalizer is not None:
                self._finalizer()
            self._writer = None
            self._finalizer = None

    def __deepcopy__(self, memo: Any) -> LazyWriter:
        return self

    def __reduce__(self) -> Any:
        # In another process it is a writer of its own, with a file of its own in the same folder.
        return type(self), (self.logdir,)

    def __enter__(self) -> LazyWriter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def write_scalars(writer: Any, prefix: str, values: Mapping[str, Any], step: int) -> None:
    """Write scalars of one step, as one event where that is possible.

    Each event goes through a pipe and two threads of tensorboardX, so one with many values costs little more than one
    with a single value. Any other writer (a subclass, a double in a test, one that reports to comet) gets a call of
    ``add_scalar`` per value.

    Args:
        writer: has ``add_scalar(tag, value, step)``.
        prefix: what the tags begin with, such as ``learner_iter/``.
        values: numbers, or tensors and arrays of one element, by the rest of their tags. Without any, nothing is done.
        step: the x of all of them.
    """
    if not values:
        return
    tagged = {prefix + name: value for name, value in values.items()}
    events = _event_file(writer)
    if events is None or not all(map(_PLAIN_TAG.fullmatch, tagged)):
        for tag, value in tagged.items():
            writer.add_scalar(tag, value, step)
        return
    from tensorboardX.proto.summary_pb2 import Summary

    entries = [
        Summary.Value(tag=tag, simple_value=float(value.detach() if hasattr(value, "detach") else value))
        for tag, value in tagged.items()
    ]
    events.add_summary(Summary(value=entries), step)


def _event_file(writer: Any) -> Any:
    """The file behind a plain tensorboardX writer; None for others, and where it is closed."""
    if type(writer) is LazyWriter:
        writer = writer._opened()
    tensorboard = sys.modules.get("tensorboardX")
    if tensorboard is None or type(writer) is not tensorboard.SummaryWriter:
        return None
    state = vars(writer)
    if "add_scalar" in state or state.get("_comet_config") != _NO_COMET:
        return None
    return state.get("file_writer")
