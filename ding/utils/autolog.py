"""Logged values: those of one iteration (``LogDict``), typed time series (``LoggedModel``), and statistics of their
latest window.

A subclass of ``LoggedModel`` lists its series as class attributes::

    class Monitor(LoggedModel):
        loss = LoggedValue(float)

    time = TickTime()
    monitor = Monitor(time, expire=10)
    monitor.loss = 0.5            # the value at this tick
    time.step()
    monitor.register_attribute_value("last", "loss", lambda: monitor.range_values["loss"]()[-1][1])
    monitor.last["loss"]()        # 0.5
"""

import time as _time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
import torch

from ding.utils.names import did_you_mean

# The modules of DI-engine's package of this name are this one: ding.utils.original_names.
__path__: list[str] = []


class BaseTime(ABC):
    """A clock."""

    @abstractmethod
    def time(self) -> float:
        """Return the current time."""


class NaturalTime(BaseTime):
    """Wall-clock seconds since the epoch."""

    def __init__(self) -> None:
        self._last = 0.0

    def time(self) -> float:
        """Return the seconds since 1970. Never decreases, even when the system clock is set back."""
        self._last = max(self._last, _time.time())
        return self._last


class TickTime(BaseTime):
    """A counter that the caller advances."""

    def __init__(self, init: float = 0) -> None:
        self._tick = init

    def step(self, delta: int = 1) -> float:
        """Advance by ``delta`` ticks (at least 1) and return the new time.

        Raises:
            TypeError: ``delta`` is not an integer.
            ValueError: ``delta`` is below 1.
        """
        if not isinstance(delta, int):
            raise TypeError(f"delta must be an integer, got {delta!r}")
        if delta < 1:
            raise ValueError(f"delta must be an integer >= 1, got {delta!r}")
        self._tick += delta
        return self._tick

    def time(self) -> float:
        """Return the current tick."""
        return self._tick


class TimeProxy(BaseTime):
    """A clock that follows another clock and can be frozen.

    Args:
        time_: The other clock.
        frozen: Whether the clock starts frozen.
    """

    def __init__(self, time_: BaseTime, frozen: bool = False) -> None:
        self._clock = time_
        self._frozen_at = time_.time() if frozen else None

    @property
    def is_frozen(self) -> bool:
        """Whether this clock is frozen."""
        return self._frozen_at is not None

    def time(self) -> float:
        """Return the time of the other clock, or the time at which this clock was frozen."""
        return self._clock.time() if self._frozen_at is None else self._frozen_at

    def current_time(self) -> float:
        """Return the time of the other clock."""
        return self._clock.time()

    def freeze(self) -> None:
        """Hold the time until ``unfreeze``."""
        self._frozen_at = self._clock.time()

    def unfreeze(self) -> None:
        """Follow the other clock again."""
        self._frozen_at = None


class TimeMode(IntEnum):
    """Origin of the times in ``range_values``."""

    ABSOLUTE = 0
    RELATIVE_LIFECYCLE = 1  # since the model was created
    RELATIVE_CURRENT_TIME = 2  # relative to the current time


class RangedData(ABC):
    """The values of a series that are at most ``expire`` old, and the last value before them. Not thread-safe.

    Args:
        expire: Maximum age in units of the clock, above 0.
    """

    def __init__(self, expire: float) -> None:
        if not isinstance(expire, (int, float)):
            raise TypeError(f"expire must be a number, got {expire!r}")
        if expire <= 0:
            raise ValueError(f"expire must be above 0, got {expire}")
        self._expire = expire
        self._records: deque[tuple[float, Any]] = deque()

    @abstractmethod
    def _get_time(self) -> float:
        """Return the current time."""

    @property
    def expire(self) -> float:
        """The age at which values are dropped."""
        return self._expire

    def append(self, data: object) -> "RangedData":
        """Append a value at the current time.

        Raises:
            ValueError: The last value has a later time.
        """
        now = self._get_time()
        if self._records and self._records[-1][0] > now:
            raise ValueError(f"time goes back: the last value is of {self._records[-1][0]}, now it is {now}")
        self._records.append((now, data))
        self._drop(now)
        return self

    def extend(self, iter_: Iterable[object]) -> "RangedData":
        """Append several values at the current time."""
        for data in iter_:
            self.append(data)
        return self

    def current(self) -> Any:
        """Return the newest value.

        Raises:
            ValueError: The series is empty.
        """
        if not self._records:
            raise ValueError("there is no value yet")
        return self._records[-1][1]

    def history(self) -> list[tuple[float, Any]]:
        """Return ``[(time, value)]`` of the window; the first and last entries are the values at its two ends."""
        now = self._get_time()
        self._drop(now)
        records = [(max(time, now - self._expire), value) for time, value in self._records]
        return [*records, (now, records[-1][1])] if records and records[-1][0] < now else records

    def __bool__(self) -> bool:
        return bool(self._records)

    def _drop(self, now: float) -> None:
        while len(self._records) > 1 and self._records[1][0] < now - self._expire:
            self._records.popleft()


class TimeRangedData(RangedData):
    """:class:`RangedData` by a clock, ``time``."""

    def __init__(self, time_: BaseTime, expire: float) -> None:
        super().__init__(expire)
        self.time = time_

    def _get_time(self) -> float:
        return self.time.time()


class LoggedValue:
    """A typed series, as an attribute of a ``LoggedModel``. Reading the attribute returns the latest value.

    Numbers are converted: ``float`` accepts integers, numpy numbers and tensors, arrays or lists of one element;
    ``int`` accepts integral values. Other types are not converted.

    Args:
        type_: Type of the values; None accepts any.
    """

    def __init__(self, type_: type | None = None) -> None:
        self.type = type_
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: "LoggedModel | None", owner: type) -> Any:
        if instance is None:
            return self
        records = instance._series[self._name]
        if not records:
            raise ValueError(f"{self._name!r} has no value yet")
        return records[-1][1]

    def __set__(self, instance: "LoggedModel", value: object) -> None:
        instance.record({self._name: value})

    def coerce(self, value: Any) -> Any:
        """Return ``value`` converted to the type of the series.

        Raises:
            TypeError: ``value`` does not fit the type.
        """
        if self.type is None:
            return value
        if self.type in (int, float) and not isinstance(value, (str, bytes)):
            try:
                number = self.type(value.item() if hasattr(value, "item") else np.asarray(value).item())
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise self._misfit(value, self.type) from error
            if self.type is float or number == value:
                return number
        elif isinstance(value, self.type):
            return value
        raise self._misfit(value, self.type)

    def _misfit(self, value: object, expected: type) -> TypeError:
        return TypeError(
            f"{self._name!r} is a series of {expected.__name__}, got {value!r:.80} ({type(value).__name__})"
        )


class _ValueGetters(dict[str, Callable[[], Any]]):
    """``model.<attribute>[<property>]``: a function without arguments that returns the value."""

    def __missing__(self, name: str) -> Callable[[], Any]:
        raise KeyError(f"unknown series {name!r}.{did_you_mean(name, self)}")


class LoggedModel:
    """Base class of models that keep the values of their series for ``expire`` units of time.

    With a tick clock, the last ``expire`` + 1 values are kept. Each point of time holds one value, the last one set.

    Args:
        time: The clock.
        expire: Maximum age in units of the clock, above 0.
    """

    def __init__(self, time: BaseTime, expire: float) -> None:
        if expire <= 0:
            raise ValueError(f"expire must be above 0, got {expire}")
        #: The clock.
        self.time = time
        self._expire = expire
        self._frozen_at: float | None = None
        self._made_at = time.time()
        self._kinds = self._find_series()
        self._series: dict[str, deque[tuple[float, Any]]] = {name: deque() for name in self._kinds}
        self._attributes: dict[str, _ValueGetters] = {}
        for name in self._series:
            self.register_attribute_value("range_values", name, partial(self._range_values, name))

    @classmethod
    def _find_series(cls) -> dict[str, LoggedValue]:
        """Return the series by name, those of base classes first."""
        found: dict[str, LoggedValue] = {}
        for base in reversed(cls.__mro__):
            found.update({name: value for name, value in vars(base).items() if isinstance(value, LoggedValue)})
        return found

    def __getattr__(self, name: str) -> _ValueGetters:
        attributes = self.__dict__.get("_attributes", {})
        if name not in attributes:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        getters: _ValueGetters = attributes[name]
        return getters

    @property
    def expire(self) -> float:
        """The age at which values are dropped."""
        return self._expire

    @property
    def properties(self) -> list[str]:
        """The names of the series, those of base classes first."""
        return list(self._series)

    def current_time(self) -> float:
        """Return the time of the clock."""
        return self.time.time()

    def fixed_time(self) -> float:
        """Return the current time of the clock, or the time at which the model was frozen."""
        return self.time.time() if self._frozen_at is None else self._frozen_at

    def freeze(self) -> None:
        """Freeze the time of this model until ``unfreeze``."""
        self._frozen_at = self.time.time()

    def unfreeze(self) -> None:
        """Follow the clock again."""
        self._frozen_at = None

    def register_attribute_value(self, attribute_name: str, property_name: str, value: Callable[[], Any]) -> None:
        """Make ``model.<attribute_name>[<property_name>]()`` call ``value``."""
        self._attributes.setdefault(attribute_name, _ValueGetters())[property_name] = value

    def get_property_attribute(self, property_name: str) -> list[str]:
        """Return the attributes registered for a series, without ``range_values``, which every series has."""
        named = [name for name, getters in self._attributes.items() if property_name in getters]
        return [name for name in named if name != "range_values"]

    def __getitem__(self, property_name: str) -> list[str]:
        """Same as ``get_property_attribute``."""
        return self.get_property_attribute(property_name)

    def record(self, values: Mapping[str, Any]) -> None:
        """Set the values of several series at the current time; unknown names are skipped.

        Raises:
            TypeError: A value does not fit the type of its series.
        """
        now = self.time.time() if self._frozen_at is None else self._frozen_at
        for name, value in values.items():
            kind = self._kinds.get(name)
            if kind is not None:
                records = self._series[name]
                value = value if type(value) is kind.type else kind.coerce(value)
                if records and records[-1][0] == now:
                    records.pop()
                records.append((now, value))
                while records[0][0] < now - self._expire:
                    records.popleft()

    def _range_values(
        self, name: str, mode: TimeMode = TimeMode.RELATIVE_LIFECYCLE
    ) -> list[tuple[tuple[float, float], Any]]:
        """Return ``[((begin, end), value)]`` of the window. Each value lasts until the next one, the last value until
        now.
        """
        now = self.fixed_time()
        zero = (0, self._made_at, now)[mode]
        records = [record for record in self._series[name] if record[0] >= now - self._expire]
        ends = [begin for begin, _ in records[1:]] + [now]
        return [((begin - zero, end - zero), value) for (begin, value), end in zip(records, ends)]


class LogDict(dict[Any, Any]):
    """A dict of log values that stores a tensor as a number (0-d) or a nested list."""

    def __setitem__(self, key: Hashable, value: object) -> None:
        super().__setitem__(key, value.tolist() if isinstance(value, torch.Tensor) else value)

    def setdefault(self, key: Hashable, default: object = None) -> object:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        items = dict(*args, **kwargs).items()
        super().update({key: value.tolist() if isinstance(value, torch.Tensor) else value for key, value in items})


def build_log_buffer() -> LogDict:
    """Return an empty dict that converts every tensor stored in it to a number or a list."""
    return LogDict()
