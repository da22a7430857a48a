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
    """Role protocol of a writer of scalar curves."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None) -> object:
        """Add one point to the curve ``tag``."""


class LazyWriter:
    """Lazy stand-in for ``tensorboardX.SummaryWriter``: the import and the file creation happen at the first ``add_*``
    call.

    Every ``add_*`` method of ``SummaryWriter`` is available. Thread-safe.

    Args:
        logdir: Folder of the event files, created at the first write.
        kwargs: Passed to ``SummaryWriter``.
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
        """Add one point to the curve of each tag in a single event, which is cheaper than one ``add_scalar`` per tag.

        Args:
            values: Tag -> number, or tensor or array of one element.
            step: The x value of all points.
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
        """Whether anything was written since creation or the last ``close``."""
        return self._writer is not None

    def flush(self) -> None:
        """Flush written points to disk."""
        with self._lock:
            if self._writer is not None:
                self._writer.flush()

    def close(self) -> None:
        """Close the file, if any. A later ``add_*`` starts a new file in the same folder."""
        with self._lock:
            if self._finalizer is not None:
                self._finalizer()
            self._writer = None
            self._finalizer = None

    def __deepcopy__(self, memo: object) -> "LazyWriter":
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        # A copy in another process is a writer of its own with its own file in the same folder.
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
    """Return whether the writer only writes scalars to its file: no Comet, no overridden method."""
    kind = type(writer)
    if (kind.__module__, kind.__name__) != ("tensorboardX.writer", "SummaryWriter") or "add_scalar" in vars(writer):
        return False
    # A closed writer reopens its file only through its own methods.
    is_open = getattr(writer, "all_writers", None) is not None
    return is_open and getattr(writer, "_comet_config", None) == {"disabled": True}


def write_scalars(writer: ScalarWriter | None, prefix: str, values: Mapping[str, Any], step: int) -> None:
    """Write the scalars of one step.

    Args:
        writer: A tensorboard writer or any object with ``add_scalar(tag, value, step)``; None writes nothing.
        prefix: Prefix of the tags, such as ``learner_iter/``.
        values: Tag without prefix -> number, or tensor or array of one element.
        step: The x value of all points.
    """
    if isinstance(writer, LazyWriter):
        writer.add_step({prefix + name: value for name, value in values.items()}, step)
    elif values and _only_writes(writer):
        _add_step(writer, {prefix + name: value for name, value in values.items()}, step)
    elif writer is not None:
        for name, value in values.items():
            writer.add_scalar(prefix + name, value, step)
