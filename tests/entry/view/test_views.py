"""Rates, times and the views of both modes."""

import io
import logging
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from ding.entry.view import LiveView, PlainView, RunStatus, console_lines, make_view
from ding.entry.view.status import RateMeter, WorkerStatus, clock_text
from ding.parallel.launch import ProcessStatus

STATUS = RunStatus("e", max_env_step=1000, stop_value=195.0, buffer_rows=7, buffer_size=50)
PARALLEL = RunStatus(
    "e",
    env_step=1234,
    train_iter=7,
    evaluations=1,
    last_return=9.5,
    buffer_rows=100,
    pushed_rows=100,
    sampled_rows=300,
    processes={
        "coordinator": ProcessStatus("running", 10, uptime_s=4.0),
        "collector0": ProcessStatus("waiting", restarts=2, last_end="ended by SIGKILL"),
    },
    workers={"collector0": WorkerStatus("collector_task_7", 1.0)},
)


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def rates_at(meter, now_s, env_step, train_iter):
    rates = meter.measure(now_s, replace(STATUS, env_step=env_step, train_iter=train_iter))
    return rates.env_step, rates.train_iter


def test_rates_are_those_of_the_window():
    meter = RateMeter(window_s=2.0)
    assert rates_at(meter, 0.0, 0, 0) == (0.0, 0.0)
    assert rates_at(meter, 1.0, 100, 10) == (100.0, 10.0)
    assert rates_at(meter, 2.0, 300, 30) == (150.0, 15.0)
    # The first point is older than the window now, and another one covers it.
    assert rates_at(meter, 3.0, 300, 30) == (100.0, 10.0)


@pytest.mark.parametrize(
    ("limits", "rates", "left_s"),
    [((1000, 10**10), (100, 1), 9.0), ((10**10, 50), (100, 10), 4.0), ((1000, 50), (100, 10), 4.0),
     ((10**10, 10**10), (1, 1), None), ((1000, 10**10), (0, 1), None)],
)  # fmt: skip
def test_time_left_is_that_of_the_nearer_limit(limits, rates, left_s):
    meter = RateMeter()
    before = RunStatus("e", 100 - rates[0], 10 - rates[1], max_env_step=limits[0], max_train_iter=limits[1])
    assert meter.measure(0.0, before).left_s is None
    assert meter.measure(1.0, replace(before, env_step=100, train_iter=10)).left_s == left_s


def test_share_counts_towards_the_nearer_limit():
    assert RunStatus("e", 100, 50, max_env_step=1000, max_train_iter=100).share == 0.5
    assert RunStatus("e", 100, 50, max_env_step=10**10).share is None


def test_samples_drawn_per_sample_pushed():
    assert PARALLEL.sample_ratio == 3.0
    assert STATUS.sample_ratio is None


@pytest.mark.parametrize(("seconds", "text"), [(None, "-"), (0.9, "00:00"), (61, "01:01"), (3725, "1:02:05")])
def test_clock_text(seconds, text):
    assert clock_text(seconds) == text


def test_the_plain_view_speaks_at_evaluations_and_now_and_then(caplog):
    clock = Clock()
    view = PlainView(10.0, clock)
    with caplog.at_level(logging.INFO, "ding.entry"):
        view.start(STATUS)
        clock.now_s += 2.0
        status = replace(STATUS, env_step=200, train_iter=20, elapsed_s=2.0)
        view.update(status)
        status = replace(status, last_return=9.5, evaluations=1)
        view.update(status)
        clock.now_s += 9.0
        view.update(status)
        clock.now_s += 1.0
        view.update(replace(status, elapsed_s=12.0))
        view.finish("solved", True)
    assert [record.getMessage() for record in caplog.records] == [
        "e: the run starts",
        "return 9.5, env step 200 (100/s), train iter 20 (10/s), buffer 7/50, 00:02, left 00:08",
        "return 9.5, env step 200 (0/s), train iter 20 (0/s), buffer 7/50, 00:12",
        "e: solved",
    ]


def test_the_plain_view_counts_processes_and_samples_of_a_parallel_run(caplog):
    view = PlainView(clock=Clock())
    with caplog.at_level(logging.INFO, "ding.entry"):
        view.start(RunStatus("e"))
        view.update(PARALLEL)
    assert caplog.messages[-1] == (
        "return 9.5, env step 1234 (0/s), train iter 7 (0/s), sample/insert 3, buffer 100, "
        "1 processes (2 restarts), 00:00"
    )


def live(status, sentence, stopping=False):
    """What is left on the terminal of a run that got to ``status`` in two seconds."""
    out, clock = io.StringIO(), Clock()
    view = LiveView(Console(file=out, width=120, force_terminal=False), clock)
    view.start(RunStatus("e"))
    clock.now_s += 2.0
    view.update(status)
    if stopping:
        view.stopping()
    view.finish(sentence, True)
    return out.getvalue()


def test_the_live_view_shows_every_figure():
    text = live(
        replace(
            STATUS, env_step=1200, train_iter=30, max_env_step=5000, evaluations=2, last_return=9.5, best_return=12.0,
            elapsed_s=2.0,
        ),
        "solved: [x]",
    )  # fmt: skip
    for part in (
        "1,200 / 5,000",
        "600/s",
        "9.5, best 12 (solved at 195)",
        "2 evaluations",
        "7 / 50",
        "00:02",
        "left 00:06",
        "24%",
    ):
        assert part in text
    assert text.rstrip().endswith("e: solved: [x]")


def test_the_live_view_shows_the_processes():
    text = live(PARALLEL, "solved: return 9.50")
    for part in ("1,234", "9.5", "sample/insert 3", "coordinator", "collector0", "collector_task_7", "waiting"):
        assert part in text


def test_the_live_view_says_that_the_run_stops():
    assert "press Ctrl-C again to quit at once" in live(STATUS, "stopped", stopping=True)


def test_without_a_terminal_the_view_is_plain(capsys):
    assert isinstance(make_view(), PlainView)
    assert isinstance(make_view(quiet=True), PlainView)


def test_the_end_of_a_run_in_a_sentence():
    assert replace(PARALLEL, solved=True, elapsed_s=7.0).describe_end() == (
        "solved: last and best evaluation: return 9.50 after 1234 env steps and 7 train iterations in 7.0 s"
    )
    learned = replace(STATUS, env_step=40, train_iter=8, last_return=9.5, max_env_step=40)
    assert learned.describe_end() == (
        "reached its limit of 40 env steps: last and best evaluation: return 9.50 (solved at 195) after 40 env steps "
        "and 8 train iterations in 0.0 s"
    )
    assert (
        replace(learned, best_return=12.0)
        .describe_end()
        .endswith(
            "last evaluation: return 9.50 (solved at 195) after 40 env steps and 8 train iterations in 0.0 s; "
            "best evaluation: return 12.00"
        )
    )
    assert (
        replace(learned, max_env_step=50, max_train_iter=8)
        .describe_end()
        .startswith("reached its limit of 8 train iterations: ")
    )
    assert (
        replace(learned, solved=True)
        .describe_end()
        .startswith("solved, the stop value is 195: last and best evaluation: return 9.50 after")
    )
    assert (
        replace(STATUS, env_step=40)
        .describe_end()
        .endswith("in 0.0 s; nothing was learned: it ended before the first update (the replay buffer held 7 rows)")
    )


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


def test_lines_of_other_processes_are_short(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    text = (
        "coordinator: task collector_task_057b9ea6-6cf5-4876-a772-62e0384bb4e9_520537 failed:\n"
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    f()\nKeyError: 3'
    )
    with console_lines():
        logging.getLogger("ding.entry").warning("%s", text)
        logging.getLogger("ding.entry").info("two\nlines")
    assert [line.partition("] ")[2] for line in out.getvalue().splitlines()] == [
        "coordinator: task collector_task 057b9e failed: KeyError: 3",
        "two",
        "",
    ]
