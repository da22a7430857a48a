"""Curve writers, one per folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ding.utils.log_writer_helper import DistributedWriter

distributed_writer = DistributedWriter()


class TBLoggerFactory:
    """Factory that creates one writer per folder."""

    tb_loggers: ClassVar[dict[str, DistributedWriter]] = {}

    @classmethod
    def create_logger(cls, logdir: str) -> DistributedWriter:
        """Return the writer of a folder, created by the first call."""
        if logdir not in cls.tb_loggers:
            cls.tb_loggers[logdir] = DistributedWriter(logdir)
        return cls.tb_loggers[logdir]


def enable_parallel(fn_name: str, fn: Callable[..., object]) -> Callable[..., object]:
    """Return a writer method that calls ``fn`` in the writing process and sends the call there from other processes.

    Args:
        fn_name: Name of the method, ``add_...``.
        fn: Writer method that performs the write.
    """

    def method(self: DistributedWriter, *args: object, **kwargs: object) -> object:
        return getattr(self, fn_name)(*args, **kwargs) if self.is_remote else fn(self, *args, **kwargs)

    return method
