"""Moving averages of log variables over the last iterations."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import torch

from ding.utils import did_you_mean
from ding.worker.learner._log_buffer import as_float

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


class Ticks:
    """A clock that counts steps."""

    def __init__(self) -> None:
        self._tick = 0

    def step(self) -> int:
        """Advance by one tick and return the new time."""
        self._tick += 1
        return self._tick

    def time(self) -> int:
        """The current tick."""
        return self._tick


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
    last value. Numbers, 0-d arrays and tensors are turned into floats.

    Args:
        time_: a clock with ``step()`` and ``time()``; by default a tick counter. ``monitor.time.step()`` advances it.
        expire: length of the window, in ticks.
    """

    properties: ClassVar[tuple[str, ...]] = BASE_PROPERTIES
    time: Any
    avg: Mapping[str, Callable[[], float]]
    val: Mapping[str, Callable[[], float]]

    def __init__(self, time_: Any = None, expire: float = 10) -> None:
        own = self.__dict__
        own["time"] = Ticks() if time_ is None else time_
        own["expire"] = expire
        own["_series"] = {name: deque() for name in self.properties}
        own["avg"] = _Window(self, lambda values: sum(values) / len(values) if values else 0.0)
        own["val"] = _Window(self, lambda values: values[-1] if values else 0.0)

    def record(self, name: str, value: Any) -> None:
        """Note a value at the current tick.

        Raises:
            AttributeError: the monitor has no such variable.
            TypeError: the value is not one number.
        """
        self.check_name(name)
        self.record_known({name: value}.items())

    def record_known(self, items: Iterable[tuple[str, Any]]) -> None:
        """Note the values of the variables that the monitor has, and skip the others."""
        now = self.time.time()
        oldest = now - self.expire
        all_series = self._series
        for name, value in items:
            series = all_series.get(name)
            if series is None:
                continue
            if type(value) is not float:
                value = _kept(name, value)
            series.append((now, value))
            while series[0][0] < oldest:
                series.popleft()

    def window(self, name: str) -> list[float]:
        """The values of a variable in the window, oldest first."""
        oldest = self.time.time() - self.expire
        return [as_float(name, value) for tick, value in self._series[name] if tick >= oldest]

    def check_name(self, name: str) -> None:
        """Raise ``AttributeError`` unless the monitor has this variable."""
        if name not in self._series:
            raise AttributeError(f"the monitor has no variable {name!r}.{did_you_mean(name, self._series)}")

    def __setattr__(self, name: str, value: Any) -> None:
        self.record(name, value)

    def __getattr__(self, name: str) -> Any:
        # Only reached for what is not in the instance dict; half-built instances (copy) have no series yet.
        series = self.__dict__.get("_series", {})
        if name not in series:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return as_float(name, series[name][-1][1]) if series[name] else 0.0


def _kept(name: str, value: Any) -> Any:
    """The value in the form in which it waits in the window."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        # Read when shown: that would wait for the device now. A copy, because the policy may change its tensor.
        if value.numel() != 1:
            raise TypeError(f"the log variable {name!r} must be one number, found shape {tuple(value.shape)}")
        return value.detach().clone()
    return as_float(name, value)


def get_simple_monitor_type(properties: Iterable[str] = ()) -> type[TickMonitor]:
    """:class:`TickMonitor`, or a subclass that has the variables ``properties`` as well."""
    names = tuple(properties)
    if not names:
        return TickMonitor
    merged = tuple(dict.fromkeys((*BASE_PROPERTIES, *names)))
    return type("SimpleTickMonitor", (TickMonitor,), {"properties": merged})
