"""Moving averages of log variables over the last iterations."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from ding.utils import did_you_mean
from ding.utils.autolog import TickTime

BASE_PROPERTIES = (
    "data_time",
    "train_time",
    "sample_count",
    "total_collect_step",
    "total_step",
    "total_sample",
    "total_episode",
    "total_duration",
)


class _Window(Mapping[str, Callable[[], float]]):
    """Variable name -> function without arguments that gives its value (``monitor.avg['total_loss']()``)."""

    def __init__(self, monitor: "TickMonitor", read: Callable[[list[float]], float]) -> None:
        self._monitor = monitor
        self._read = read

    def __getitem__(self, name: str) -> Callable[[], float]:
        self._monitor.check_name(name)
        return lambda: self._read(self._monitor.window(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._monitor.properties)

    def __len__(self) -> int:
        return len(self._monitor.properties)


class TickMonitor:
    """Keeps the values of each variable for the last ``expire`` ticks.

    ``monitor.total_loss = 0.3`` notes a value at the current tick, ``monitor.total_loss`` is the last one noted,
    ``monitor.avg['total_loss']()`` the mean of the window (0 when it is empty) and ``monitor.val['total_loss']()`` its
    last value. Numbers, and arrays and tensors of one element, are turned into floats.

    Args:
        time_: a clock with ``step()`` and ``time()``; by default a tick counter. ``monitor.time.step()`` advances it.
        expire: length of the window, in ticks.
    """

    properties: ClassVar[tuple[str, ...]] = BASE_PROPERTIES
    time: TickTime
    avg: Mapping[str, Callable[[], float]]
    val: Mapping[str, Callable[[], float]]

    def __init__(self, time_: TickTime | None = None, expire: float = 10) -> None:
        # Not by assignment, which notes a value.
        vars(self).update(
            time=TickTime() if time_ is None else time_,
            expire=expire,
            series={name: deque() for name in self.properties},
            avg=_Window(self, lambda values: sum(values) / len(values) if values else 0.0),
            val=_Window(self, lambda values: values[-1] if values else 0.0),
        )

    def record(self, values: Mapping[str, Any]) -> None:
        """Note values at the current tick; those of variables that the monitor does not have are skipped.

        Raises:
            TypeError: a value is not one number.
        """
        now = self.time.time()
        for name, value in values.items():
            series = self.series.get(name)
            if series is not None:
                series.append((now, value if type(value) is float else _as_float(name, value)))
                while series[0][0] < now - self.expire:
                    series.popleft()

    def window(self, name: str) -> list[float]:
        """The values of a variable in the window, oldest first."""
        oldest = self.time.time() - self.expire
        return [value for tick, value in self.series[name] if tick >= oldest]

    def check_name(self, name: str) -> None:
        """Raise ``AttributeError`` unless the monitor has this variable."""
        if name not in self.series:
            raise AttributeError(f"the monitor has no variable {name!r}.{did_you_mean(name, self.series)}")

    def __setattr__(self, name: str, value: object) -> None:
        self.check_name(name)
        self.record({name: value})

    def __getattr__(self, name: str) -> Any:
        # Only reached for what is not in the instance dict; half-built instances (copy) have no series yet.
        series = vars(self).get("series", {})
        if name not in series:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return series[name][-1][1] if series[name] else 0.0


def _as_float(name: str, value: object) -> float:
    """A Python float out of a number, or an array, a tensor or a list of one element.

    Raises:
        TypeError: ``value`` has more than one element or is no number; the message gives ``name``.
    """
    try:
        return float(value.item() if isinstance(value, torch.Tensor) else np.asarray(value).item())
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"the log variable {name!r} must be one number, found {type(value).__name__}: {value!r:.80}"
        ) from error


def get_simple_monitor_type(properties: Iterable[str] = ()) -> type[TickMonitor]:
    """:class:`TickMonitor`, or a subclass that has the variables ``properties`` as well."""
    names = tuple(properties)
    if not names:
        return TickMonitor
    merged = tuple(dict.fromkeys((*BASE_PROPERTIES, *names)))
    return type("SimpleTickMonitor", (TickMonitor,), {"properties": merged})
