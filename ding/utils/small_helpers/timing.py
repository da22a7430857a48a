"""Interface of timing wrappers, and one that uses CUDA events."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")
_MS = 1000.0


class TimeWrapper(ABC):
    """Measure calls by :meth:`start_time` and :meth:`end_time` of a subclass."""

    @classmethod
    def wrapper(cls, fn: Callable[P, T]) -> Callable[P, tuple[T, float]]:
        """Wrap ``fn`` to return its result and its duration in seconds."""

        @functools.wraps(fn)
        def timed(*args: P.args, **kwargs: P.kwargs) -> tuple[T, float]:
            cls.start_time()
            result = fn(*args, **kwargs)
            return result, cls.end_time()

        return timed

    @classmethod
    @abstractmethod
    def start_time(cls) -> None:
        """Start the measurement."""

    @classmethod
    @abstractmethod
    def end_time(cls) -> float:
        """Return the seconds since :meth:`start_time`."""


def get_cuda_time_wrapper() -> type[TimeWrapper]:
    """Return a :class:`TimeWrapper` that measures the work of the current CUDA device by events."""

    class TimeWrapperCuda(TimeWrapper):
        """Seconds between two events of the current CUDA stream."""

        _events: ClassVar[tuple[torch.cuda.Event, ...]] = ()

        @classmethod
        def start_time(cls) -> None:
            cls._events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            cls._events[0].record()

        @classmethod
        def end_time(cls) -> float:
            begin, end = cls._events
            end.record()
            torch.cuda.synchronize()
            return float(begin.elapsed_time(end)) / _MS

    return TimeWrapperCuda
