"""A tensorboardX writer that costs nothing until the first value is written."""

import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from ding.utils._patient_file import event_folder

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter


class ScalarWriter(Protocol):
    """What draws curves."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None) -> object:
        """Add one point to the curve ``tag``."""


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
        self._finalizer: weakref.finalize[..., LazyWriter] | None = None
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("add_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def add(*args: Any, **kwargs: Any) -> None:
            self._add(name, *args, **kwargs)

        add.__name__ = name
        return add

    def _add(self, fn_name: str, *args: Any, **kwargs: Any) -> None:
        writer = self._opened()
        add = partial(_add_step, writer) if fn_name == "add_step" else getattr(writer, fn_name)
        add(*args, **kwargs)

    def add_step(self, values: Mapping[str, Any], step: int) -> None:
        """Add one point to the curve of each tag, all in one event, which costs less than an ``add_scalar`` for each.

        Args:
            values: numbers, or tensors and arrays of one element, by tag.
            step: the x of all of them.
        """
        if values:
            self._add("add_step", dict(values), step)

    def _opened(self) -> "SummaryWriter":
        with self._lock:
            if self._writer is None:
                from tensorboardX import SummaryWriter

                folder = self.logdir
                self._writer = SummaryWriter(folder and event_folder(folder), **self._kwargs)
                self.logdir = folder or self._writer.logdir
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

    def __deepcopy__(self, memo: object) -> "LazyWriter":
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        # In another process it is a writer of its own, with a file of its own in the same folder.
        return type(self), (self.logdir,)

    def __enter__(self) -> "LazyWriter":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _add_step(writer: "SummaryWriter", values: Mapping[str, Any], step: int) -> None:
    from tensorboardX.summary import Summary, scalar

    summary = Summary()
    for tag, value in values.items():
        summary.value.extend(scalar(tag, value).value)
    writer.file_writer.add_summary(summary, step)


def _only_writes(writer: object) -> TypeGuard["SummaryWriter"]:
    """Return whether all that a writer does with a scalar is to write it to its file: no Comet, no method of somebody
    else.
    """
    kind = type(writer)
    if (kind.__module__, kind.__name__) != ("tensorboardX.writer", "SummaryWriter") or "add_scalar" in vars(writer):
        return False
    # A writer that was closed opens itself again with its methods only.
    is_open = getattr(writer, "all_writers", None) is not None
    return is_open and getattr(writer, "_comet_config", None) == {"disabled": True}


def write_scalars(writer: ScalarWriter | None, prefix: str, values: Mapping[str, Any], step: int) -> None:
    """Write scalars of one step.

    Args:
        writer: the tensorboard writer, or anything else with ``add_scalar(tag, value, step)``; None writes nothing.
        prefix: what the tags begin with, such as ``learner_iter/``.
        values: numbers, or tensors and arrays of one element, by the rest of their tags.
        step: the x of all of them.
    """
    if isinstance(writer, LazyWriter):
        writer.add_step({prefix + name: value for name, value in values.items()}, step)
    elif values and _only_writes(writer):
        _add_step(writer, {prefix + name: value for name, value in values.items()}, step)
    elif writer is not None:
        for name, value in values.items():
            writer.add_scalar(prefix + name, value, step)
