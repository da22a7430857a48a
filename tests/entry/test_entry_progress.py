"""Rates, times and the views."""

import io
import logging
import sys

import pytest
from rich.console import Console

from ding.entry._live_view import LiveView
from ding.entry._progress import PlainView, Progress, RateMeter, clock_text, console_lines, make_view, time_left_s


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def make_progress(**changes):
    values = {
        "exp_name": "e",
        "max_env_step": 1000,
        "max_train_iter": 10**10,
        "stop_value": 195.0,
        "buffer_size": 50,
        "buffer_count": lambda: 7,
        "clock": Clock(),
    }
    return Progress(**{**values, **changes})


def test_rates_are_those_of_the_window():
    meter = RateMeter(window_s=2.0)
    assert meter.measure(0.0, 0, 0) == (0.0, 0.0)
    assert meter.measure(1.0, 100, 10) == (100.0, 10.0)
    assert meter.measure(2.0, 300, 30) == (150.0, 15.0)
    # The first point is older than the window now, and another one covers it.
    assert meter.measure(3.0, 300, 30) == (100.0, 10.0)


@pytest.mark.parametrize(
    ("limits", "rates", "left_s"),
    [((1000, 10**10), (100.0, 1.0), 9.0), ((10**10, 50), (100.0, 10.0), 4.0), ((1000, 50), (100.0, 10.0), 4.0),
     ((10**10, 10**10), (1.0, 1.0), None), ((1000, 10**10), (0.0, 1.0), None)],
)  # fmt: skip
def test_time_left_is_that_of_the_nearer_limit(limits, rates, left_s):
    progress = make_progress(max_env_step=limits[0], max_train_iter=limits[1])
    progress.begin(100, 10)
    assert time_left_s(progress, *rates) == left_s


def test_share_counts_towards_the_nearer_limit():
    progress = make_progress(max_train_iter=100)
    progress.begin(100, 50)
    assert progress.share() == 0.5
    assert make_progress(max_env_step=10**10).share() is None


@pytest.mark.parametrize(("seconds", "text"), [(None, "-"), (0.9, "00:00"), (61, "01:01"), (3725, "1:02:05")])
def test_clock_text(seconds, text):
    assert clock_text(seconds) == text


def test_plain_view_speaks_at_evaluations_and_now_and_then(caplog):
    progress = make_progress()
    view = PlainView(interval_s=10.0)
    with caplog.at_level(logging.INFO, "ding.entry"):
        progress.begin(0, 0)
        view.start(progress)
        progress.clock.now_s += 2.0
        progress.env_step, progress.train_iter, progress.last_return = 200, 20, 9.5
        view.update(progress)
        view.evaluated(progress)
        progress.clock.now_s += 9.0
        view.update(progress)
        progress.clock.now_s += 1.0
        view.update(progress)
        view.finish(progress, "solved", True)
    assert [record.getMessage() for record in caplog.records] == [
        "e: training starts",
        "return 9.50, env step 200 (100/s), train iter 20 (10/s), buffer 7/50, 00:02, left 00:08",
        "env step 200 (0/s), train iter 20 (0/s), buffer 7/50, 00:12, left -",
        "e: solved",
    ]


def test_live_view_shows_every_figure():
    out = io.StringIO()
    view = LiveView(Console(file=out, width=100, force_terminal=False))
    progress = make_progress()
    progress.begin(0, 0)
    view.start(progress)
    progress.env_step, progress.train_iter, progress.evaluations = 1200, 30, 2
    progress.last_return, progress.best_return = 9.5, 12.0
    progress.max_env_step = 5000
    progress.clock.now_s += 2.0
    view.finish(progress, "solved: [x]", True)
    text = out.getvalue()
    for part in (
        "1,200 / 5,000",
        "600/s",
        "9.50 of 195 (best 12.00)",
        "2 evaluations",
        "7 / 50",
        "00:02",
        "left 00:06",
        "24%",
    ):
        assert part in text
    assert text.rstrip().endswith("e: solved: [x]")


def test_live_view_says_that_the_run_stops():
    out = io.StringIO()
    view = LiveView(Console(file=out, width=100, force_terminal=False))
    progress = make_progress()
    progress.begin(0, 0)
    view.start(progress)
    view.stopping()
    view.finish(progress, "stopped", False)
    assert "stopping; once more ends it at once" in out.getvalue()


def test_without_a_terminal_the_view_is_plain(capsys):
    assert isinstance(make_view(), PlainView)
    assert isinstance(make_view(quiet=True), PlainView)


def test_console_shows_own_lines_and_warnings_and_is_removed(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    library = logging.getLogger("ding")
    monkeypatch.setattr(library, "handlers", [])
    level = library.level
    with console_lines():
        logging.getLogger("ding.entry").info("own line")
        component = logging.Logger("learner_logger", logging.INFO)
        component.parent = library
        component.info("a table")
        component.warning("a warning")
    logging.getLogger("ding.entry").info("too late")
    assert [line.split("] ")[1] for line in out.getvalue().splitlines()] == ["own line", "a warning"]
    assert library.level == level
    assert library.handlers == []
