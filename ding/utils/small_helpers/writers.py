"""Writers of curves by their folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ding.utils.log_writer_helper import DistributedWriter

distributed_writer = DistributedWriter()


class TBLoggerFactory:
    """Makes one writer for each folder."""

    tb_loggers: ClassVar[dict[str, DistributedWriter]] = {}

    @classmethod
    def create_logger(cls, logdir: str) -> DistributedWriter:
        """Return the writer of a folder, which is made by the first call."""
        if logdir not in cls.tb_loggers:
            cls.tb_loggers[logdir] = DistributedWriter(logdir)
        return cls.tb_loggers[logdir]


def enable_parallel(fn_name: str, fn: Callable[..., object]) -> Callable[..., object]:
    """Return a method of a writer: it calls ``fn`` in the process that writes, and has this one do so from others.

    Args:
        fn_name: name of the method, ``add_...``.
        fn: the method of a writer that writes.
    """

    def method(self: DistributedWriter, *args: object, **kwargs: object) -> object:
        return getattr(self, fn_name)(*args, **kwargs) if self.is_remote else fn(self, *args, **kwargs)

    return method
