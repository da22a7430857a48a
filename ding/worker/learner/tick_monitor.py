"""Moving averages of a learner's logged values."""

from collections.abc import Iterable
from functools import partial

from ding.utils import did_you_mean
from ding.utils.autolog import LoggedModel, LoggedValue, TickTime


class TickMonitor(LoggedModel):
    """Moving averages of log variables over the last ``expire`` train iterations (ticks of ``monitor.time``).

    ``monitor.total_loss = 0.3`` records a value at the current tick, ``monitor.total_loss`` returns the last one,
    ``monitor.avg['total_loss']()`` the mean of the window (0 if empty) and ``monitor.val['total_loss']()`` its last
    value.

    Args:
        time_: Clock with ``step()`` and ``time()``; by default a tick counter. ``monitor.time.step()`` advances it.
        expire: Length of the window, in ticks.
    """

    time: TickTime
    data_time = LoggedValue(float)
    train_time = LoggedValue(float)
    sample_count = LoggedValue(float)
    total_collect_step = LoggedValue(float)
    total_step = LoggedValue(float)
    total_sample = LoggedValue(float)
    total_episode = LoggedValue(float)
    total_duration = LoggedValue(float)

    def __init__(self, time_: TickTime | None = None, expire: float = 10) -> None:
        super().__init__(TickTime() if time_ is None else time_, expire)
        for name in self.properties:
            self.register_attribute_value("avg", name, partial(self._mean, name))
            self.register_attribute_value("val", name, partial(self._last, name))

    def _mean(self, name: str) -> float:
        values = self._range_values(name)
        return sum(value for _, value in values) / len(values) if values else 0.0

    def _last(self, name: str) -> float:
        values = self._range_values(name)
        return values[-1][1] if values else 0.0

    def __setattr__(self, name: str, value: object) -> None:
        if name != "time" and not name.startswith("_") and name not in self._series:
            raise AttributeError(f"the monitor has no variable {name!r}.{did_you_mean(name, self._series)}")
        super().__setattr__(name, value)


def get_simple_monitor_type(properties: Iterable[str] = ()) -> type[TickMonitor]:
    """Return :class:`TickMonitor`, or a subclass with the additional variables ``properties``."""
    series = {name: LoggedValue(float) for name in properties}
    return type("SimpleTickMonitor", (TickMonitor,), series) if series else TickMonitor
