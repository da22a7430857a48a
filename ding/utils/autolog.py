"""What is logged: the values of an iteration (``LogDict``), typed series of values over time (``LoggedModel``), and
what is computed from the latest of them.

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
    """Seconds since the epoch."""

    def __init__(self) -> None:
        self._last = 0.0

    def time(self) -> float:
        """Return the seconds since 1970; never less than before, also when the clock of the machine is set back."""
        self._last = max(self._last, _time.time())
        return self._last


class TickTime(BaseTime):
    """A counter that is moved by hand, from any number on."""

    def __init__(self, init: float = 0) -> None:
        self._tick = init

    def step(self, delta: int = 1) -> float:
        """Go on by ``delta`` ticks (at least 1) and return the new time.

        Raises:
            TypeError: ``delta`` is no integer.
            ValueError: it is below 1.
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
    """A clock that follows another one, or stands still.

    Args:
        time_: the other clock.
        frozen: whether it stands still from the start.
    """

    def __init__(self, time_: BaseTime, frozen: bool = False) -> None:
        self._clock = time_
        self._frozen_at = time_.time() if frozen else None

    @property
    def is_frozen(self) -> bool:
        """Whether this clock stands still."""
        return self._frozen_at is not None

    def time(self) -> float:
        """Return the time of the other clock, or that at which this one was frozen."""
        return self._clock.time() if self._frozen_at is None else self._frozen_at

    def current_time(self) -> float:
        """Return the time of the other clock."""
        return self._clock.time()

    def freeze(self) -> None:
        """Stand still until ``unfreeze``."""
        self._frozen_at = self._clock.time()

    def unfreeze(self) -> None:
        """Follow the other clock again."""
        self._frozen_at = None


class TimeMode(IntEnum):
    """From where ``range_values`` counts."""

    ABSOLUTE = 0
    RELATIVE_LIFECYCLE = 1  # from when the model was made
    RELATIVE_CURRENT_TIME = 2  # from now


class RangedData(ABC):
    """The values of a series that are at most ``expire`` old, and the last one before them. Not thread-safe.

    Args:
        expire: age in units of the clock, above 0.
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
        """Add a value at this time.

        Raises:
            ValueError: the last value is later than this time.
        """
        now = self._get_time()
        if self._records and self._records[-1][0] > now:
            raise ValueError(f"time goes back: the last value is of {self._records[-1][0]}, now it is {now}")
        self._records.append((now, data))
        self._drop(now)
        return self

    def extend(self, iter_: Iterable[object]) -> "RangedData":
        """Add several values at this time."""
        for data in iter_:
            self.append(data)
        return self

    def current(self) -> Any:
        """Return the newest value.

        Raises:
            ValueError: there is none.
        """
        if not self._records:
            raise ValueError("there is no value yet")
        return self._records[-1][1]

    def history(self) -> list[tuple[float, Any]]:
        """``[(time, value)]`` of the window; what held at its begin and what holds now stand at its ends."""
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
    """A series of one type, as an attribute of a ``LoggedModel``. Reading it gives the latest value.

    Numbers are converted: ``float`` takes integers, numpy numbers and tensors, arrays or lists of one element; ``int``
    takes what is integral. Other types must fit as they are.

    Args:
        type_: the type; None takes anything.
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
        """``value`` as one of the series.

        Raises:
            TypeError: it does not fit.
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
    """``model.<attribute>[<property>]``: a function of no argument that gives the value."""

    def __missing__(self, name: str) -> Callable[[], Any]:
        raise KeyError(f"unknown series {name!r}.{did_you_mean(name, self)}")


class LoggedModel:
    """Holds the values of its series that are at most ``expire`` old: with ticks the last ``expire`` + 1 of them.

    One value is kept per point of time, the last one that was set.

    Args:
        time: the clock.
        expire: age in units of the clock, above 0.
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
        """Return the time of the clock, or the one at which the model was frozen."""
        return self.time.time() if self._frozen_at is None else self._frozen_at

    def freeze(self) -> None:
        """Hold the time of this model still until ``unfreeze``."""
        self._frozen_at = self.time.time()

    def unfreeze(self) -> None:
        """Follow the clock again."""
        self._frozen_at = None

    def register_attribute_value(self, attribute_name: str, property_name: str, value: Callable[[], Any]) -> None:
        """Make ``model.<attribute_name>[<property_name>]()`` call ``value``."""
        self._attributes.setdefault(attribute_name, _ValueGetters())[property_name] = value

    def get_property_attribute(self, property_name: str) -> list[str]:
        """Return the attributes that are registered for a series, without ``range_values``, which each has."""
        named = [name for name, getters in self._attributes.items() if property_name in getters]
        return [name for name in named if name != "range_values"]

    def __getitem__(self, property_name: str) -> list[str]:
        """Return the same as ``get_property_attribute``."""
        return self.get_property_attribute(property_name)

    def record(self, values: Mapping[str, Any]) -> None:
        """Set the values of several series at this time; what is the name of no series is skipped.

        Raises:
            TypeError: a value is not of the type of its series.
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
        """``[((begin, end), value)]`` of the window; a value lasts until the next one, the last one until now."""
        now = self.fixed_time()
        zero = (0, self._made_at, now)[mode]
        records = [record for record in self._series[name] if record[0] >= now - self._expire]
        ends = [begin for begin, _ in records[1:]] + [now]
        return [((begin - zero, end - zero), value) for (begin, value), end in zip(records, ends)]


class LogDict(dict[Any, Any]):
    """A dict for log values: a tensor is stored as a number (0-d) or a nested list."""

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
    """Return an empty dict that turns every tensor put into it into a number or a list."""
    return LogDict()
