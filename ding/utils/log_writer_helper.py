"""A tensorboard writer that all nodes of a parallel run share."""

import logging
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from ding.utils._tb_writer import LazyWriter

log = logging.getLogger(__name__)
_EVENT = "distributed_writer"


class Router(Protocol):
    """Role protocol of the router of a parallel run (``ding.framework.Parallel``)."""

    is_active: bool

    def on(self, event: str, fn: Callable[..., None]) -> object:
        """Call ``fn`` when ``event`` arrives."""

    def emit(self, event: str, *args: Any, **kwargs: Any) -> object:
        """Send ``event`` to the other nodes."""


class DistributedWriter(LazyWriter):
    """A ``LazyWriter`` shared by several nodes: one node writes, the others send it their ``add_*`` calls.

    ``get_instance(...)`` keeps the first writer as the root of the process.
    """

    root: "ClassVar[DistributedWriter | None]" = None
    _root_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, logdir: str | None = None, **kwargs: Any) -> None:
        super().__init__(logdir, **kwargs)
        self._router: Router | None = None
        self._is_writer = False

    @classmethod
    def get_instance(cls, *args: Any, **kwargs: Any) -> "DistributedWriter | None":
        """With arguments, create a writer, which becomes the root if there is none; else return the root or None."""
        if not args and not kwargs:
            return cls.root
        writer = cls(*args, **kwargs)
        with cls._root_lock:
            if cls.root is None:
                cls.root = writer
            else:
                log.warning("the root writer stays the one of %r, %r is another one", cls.root.logdir, writer.logdir)
        return writer

    @classmethod
    def reset_root(cls) -> None:
        """Close and drop the root, so that the next ``get_instance(logdir)`` creates a new one."""
        with cls._root_lock:
            root, cls.root = cls.root, None
        if root is not None:
            root.close()

    def plugin(self, router: Router, is_writer: bool = False) -> "DistributedWriter":
        """Connect to the nodes of ``router``: nodes other than the writer send their calls to it."""
        if router.is_active:
            self._router = router
            self._is_writer = is_writer
            if is_writer:
                router.on(_EVENT, self._on_event)
        return self

    @property
    def is_remote(self) -> bool:
        """Whether another node writes the points of this one."""
        return self._router is not None and not self._is_writer

    def initialize(self) -> None:
        """Create the file now."""
        self._opened()

    def close(self) -> None:
        """Close the file; with an active router only flush it, because other nodes may still write."""
        if self._router is not None and self._router.is_active:
            self.flush()
        else:
            super().close()

    def _add(self, fn_name: str, *args: Any, **kwargs: Any) -> None:
        if self._router is not None and self.is_remote:
            self._router.emit(_EVENT, fn_name, *args, **kwargs)
        else:
            super()._add(fn_name, *args, **kwargs)

    def _on_event(self, fn_name: str, *args: Any, **kwargs: Any) -> None:
        # The name comes from another process: it must reach nothing but the add_* methods.
        if not (isinstance(fn_name, str) and fn_name.startswith("add_")):
            log.warning("a node asked the writer for %r, which is not an add_* method", fn_name)
            return
        super()._add(fn_name, *args, **kwargs)
