import numpy as np
import pytest
import torch

from ding.worker.learner import TickMonitor, get_simple_monitor_type


def test_names():
    assert get_simple_monitor_type() is TickMonitor
    monitor_type = get_simple_monitor_type(["total_loss", "train_time"])
    assert issubclass(monitor_type, TickMonitor)
    assert monitor_type().properties == [*TickMonitor().properties, "total_loss"]
    assert "data_time" in TickMonitor().properties


def test_window_holds_the_last_ticks():
    monitor = get_simple_monitor_type(["x"])(expire=3)
    assert monitor.avg["x"]() == 0.0
    for value in range(6):
        monitor.x = float(value)
        monitor.time.step()
    # At tick 6 the window reaches back to tick 3.
    assert [value for _, value in monitor.range_values["x"]()] == [3.0, 4.0, 5.0]
    assert monitor.avg["x"]() == 4.0
    assert monitor.val["x"]() == 5.0
    assert monitor.x == 5.0
    for _ in range(4):
        monitor.time.step()
    assert monitor.avg["x"]() == 0.0


@pytest.mark.parametrize("value", [2, True, np.float32(2), np.int64(2), torch.tensor(2), torch.tensor([2.0]), [2.0]])
def test_any_number_becomes_a_float(value):
    monitor = get_simple_monitor_type(["x"])()
    monitor.x = value
    assert type(monitor.x) is float
    assert monitor.x == (1.0 if value is True else 2.0)


@pytest.mark.parametrize("value", [[1.0, 2.0], torch.zeros(2), "x", None])
def test_what_is_no_number_is_told(value):
    monitor = get_simple_monitor_type(["x"])()
    with pytest.raises(TypeError, match="'x' is a series of float"):
        monitor.x = value


def test_unknown_names_are_told():
    monitor = get_simple_monitor_type(["total_loss"])()
    with pytest.raises(AttributeError, match="Did you mean 'total_loss'"):
        monitor.totl_loss = 1.0
    with pytest.raises(KeyError, match="unknown series 'y'"):
        monitor.avg["y"]
    with pytest.raises(AttributeError, match="no attribute 'y'"):
        monitor.y
    monitor.record({"y": "skipped", "total_loss": 1.0})
    assert monitor.total_loss == 1.0


def test_monitor_takes_a_clock():
    class Clock:
        now = 0

        def step(self):
            self.now += 5

        def time(self):
            return self.now

    monitor = TickMonitor(Clock(), expire=4)
    monitor.train_time = 1.0
    assert monitor.avg["train_time"]() == 1.0
    monitor.time.step()
    assert monitor.avg["train_time"]() == 0.0
