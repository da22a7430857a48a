"""Typed series of values over time, and what is computed from the latest of them.

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
from collections.abc import Callable
from functools import partial
from typing import Any

from ding.utils.default_helper import did_you_mean


class BaseTime(ABC):
    """A clock."""

    @abstractmethod
    def time(self) -> float:
        """The current time."""


class NaturalTime(BaseTime):
    """Seconds on the monotonic clock."""

    def time(self) -> float:
        """Seconds since an unknown start; never goes back."""
        return _time.monotonic()


class TickTime(BaseTime):
    """A counter that is moved by hand."""

    def __init__(self, init: int = 0) -> None:
        self._tick = init

    def step(self, delta: int = 1) -> int:
        """Go on by ``delta`` ticks (at least 1) and return the new time."""
        if not isinstance(delta, int) or delta < 1:
            raise ValueError(f"delta must be an integer >= 1, got {delta!r}")
        self._tick += delta
        return self._tick

    def time(self) -> int:
        """The current tick."""
        return self._tick


class LoggedValue:
    """A series of one type, as an attribute of a ``LoggedModel``. Reading it gives the latest value.

    Numbers are converted: ``float`` takes integers, numpy numbers and tensors or arrays of one element; ``int`` takes
    what is integral. Other types must fit as they are.

    Args:
        type_: the type; None takes anything.
    """

    def __init__(self, type_: type | None = None) -> None:
        self._type = type_
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
        instance._append(self._name, self._coerce(value))

    def _coerce(self, value: Any) -> Any:
        if self._type is None or type(value) is self._type:
            return value
        if self._type in (int, float) and not isinstance(value, (str, bytes)):
            try:
                number = self._type(value.item() if hasattr(value, "item") else value)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise self._misfit(value) from error
            if self._type is float or number == value:
                return number
        elif isinstance(value, self._type):
            return value
        raise self._misfit(value)

    def _misfit(self, value: object) -> TypeError:
        expected = self._type.__name__ if self._type is not None else "anything"
        return TypeError(f"{self._name!r} is a series of {expected}, got {value!r} ({type(value).__name__})")


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
        self._time = time
        self._expire = expire
        self._frozen_at: float | None = None
        self._series: dict[str, deque[tuple[float, Any]]] = {name: deque() for name in self._find_series()}
        self._attributes: dict[str, _ValueGetters] = {}
        for name in self._series:
            self.register_attribute_value("range_values", name, partial(self._range_values, name))

    @classmethod
    def _find_series(cls) -> list[str]:
        names: dict[str, None] = {}
        for base in reversed(cls.__mro__):
            names.update({name: None for name, value in vars(base).items() if isinstance(value, LoggedValue)})
        return list(names)

    def __getattr__(self, name: str) -> _ValueGetters:
        attributes = self.__dict__.get("_attributes", {})
        if name not in attributes:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return attributes[name]

    @property
    def time(self) -> BaseTime:
        """The clock."""
        return self._time

    @property
    def expire(self) -> float:
        """The age at which values are dropped."""
        return self._expire

    @property
    def properties(self) -> list[str]:
        """The names of the series, those of base classes first."""
        return list(self._series)

    def current_time(self) -> float:
        """The time of the clock, or the one at which the model was frozen."""
        return self._time.time() if self._frozen_at is None else self._frozen_at

    def fixed_time(self) -> float:
        """The same as ``current_time``."""
        return self.current_time()

    def freeze(self) -> None:
        """Hold the time of this model still until ``unfreeze``."""
        self._frozen_at = self._time.time()

    def unfreeze(self) -> None:
        """Follow the clock again."""
        self._frozen_at = None

    def register_attribute_value(self, attribute_name: str, property_name: str, value: Callable[[], Any]) -> None:
        """Make ``model.<attribute_name>[<property_name>]()`` call ``value``."""
        self._attributes.setdefault(attribute_name, _ValueGetters())[property_name] = value

    def get_property_attribute(self, property_name: str) -> list[str]:
        """The attributes that are registered for a series."""
        return [name for name, getters in self._attributes.items() if property_name in getters]

    def __getitem__(self, property_name: str) -> list[str]:
        """The same as ``get_property_attribute``."""
        return self.get_property_attribute(property_name)

    def _append(self, name: str, value: object) -> None:
        now = self.current_time()
        records = self._series[name]
        if records and records[-1][0] == now:
            records.pop()
        records.append((now, value))
        self._drop_expired(records, now)

    def _drop_expired(self, records: deque[tuple[float, Any]], now: float) -> None:
        while records and records[0][0] < now - self._expire:
            records.popleft()

    def _range_values(self, name: str) -> list[tuple[tuple[float, float], Any]]:
        """``[((begin, end), value)]`` of the window; a value lasts until the next one, the last one until now."""
        now = self.current_time()
        records = self._series[name]
        self._drop_expired(records, now)
        ends = [begin for begin, _ in list(records)[1:]] + [now]
        return [((begin, end), value) for (begin, value), end in zip(records, ends)]
