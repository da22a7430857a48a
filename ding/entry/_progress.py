"""How far a run is, and the views that show it.

The loop fills a `Progress` and tells a `ProgressView`; which view listens makes no difference to the loop.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from ding.entry._signals import write_notice

logger = logging.getLogger("ding.entry")

UNBOUNDED = int(1e8)
"""A limit of at least this many steps or iterations counts as no limit: no share of it is shown."""


@dataclass
class Progress:
    """The state of a run. ``env_step``: steps of all collector envs; ``train_iter``: optimisation steps."""

    exp_name: str
    max_env_step: float
    max_train_iter: float
    stop_value: float
    buffer_size: int
    buffer_count: Callable[[], int]
    env_step: int = 0
    train_iter: int = 0
    evaluations: int = 0
    last_return: float | None = None
    best_return: float | None = None
    clock: Callable[[], float] = time.monotonic
    started_s: float = field(default=0.0)
    first_env_step: int = 0

    def begin(self, env_step: int, train_iter: int) -> None:
        """Start the clock; a resumed run begins at the counts of its checkpoint."""
        self.started_s = self.clock()
        self.env_step = self.first_env_step = env_step
        self.train_iter = train_iter

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self.started_s

    def share(self) -> float | None:
        """Done share in [0, 1] of the limit that is nearest, or None when there is no limit."""
        pairs = ((self.env_step, self.max_env_step), (self.train_iter, self.max_train_iter))
        shares = [done / limit for done, limit in pairs if 0 < limit < UNBOUNDED]
        return min(1.0, max(shares)) if shares else None


class RateMeter:
    """Rates over the last ``window_s`` seconds; `measure` is called about once per picture."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._window_s = window_s
        self._points: deque[tuple[float, int, int]] = deque()

    def measure(self, now_s: float, env_step: int, train_iter: int) -> tuple[float, float]:
        """Return env steps per second and train iterations per second."""
        self._points.append((now_s, env_step, train_iter))
        while len(self._points) > 2 and now_s - self._points[1][0] >= self._window_s:
            self._points.popleft()
        then_s, steps, iters = self._points[0]
        passed_s = now_s - then_s
        if passed_s <= 0:
            return 0.0, 0.0
        return (env_step - steps) / passed_s, (train_iter - iters) / passed_s


def time_left_s(progress: Progress, env_rate: float, train_rate: float) -> float | None:
    """Seconds until the nearer limit at these rates, or None when it cannot be told."""
    left = []
    for done, limit, rate in (
        (progress.env_step, progress.max_env_step, env_rate),
        (progress.train_iter, progress.max_train_iter, train_rate),
    ):
        if limit < UNBOUNDED and rate > 0:
            left.append(max(0.0, limit - done) / rate)
    return min(left) if left else None


def clock_text(seconds: float | None) -> str:
    """``h:mm:ss`` or ``mm:ss``; a dash for None."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


class ProgressView(Protocol):
    """Shows a run. All methods are called by the loop's thread; `update` once per pass, so it must be cheap."""

    def start(self, progress: Progress) -> None:
        """The run begins."""

    def update(self, progress: Progress) -> None:
        """One pass (collect, train) is over."""

    def evaluated(self, progress: Progress) -> None:
        """An evaluation is over; ``progress.last_return`` is its mean return."""

    def stopping(self) -> None:
        """A signal asked the run to stop. Called inside the signal's handler: no locks, no buffered writes."""

    def finish(self, progress: Progress, sentence: str, ok: bool) -> None:
        """The run is over; ``sentence`` says how it ended, ``ok`` whether by itself. Called once, also after errors."""


class PlainView:
    """One log line per evaluation, and a sign of life every ``interval_s`` seconds between them."""

    def __init__(self, interval_s: float = 10.0) -> None:
        self._interval_s = interval_s
        self._meter = RateMeter()
        self._next_s = 0.0

    def start(self, progress: Progress) -> None:
        logger.info("%s: training starts", progress.exp_name)
        self._meter.measure(progress.clock(), progress.env_step, progress.train_iter)
        self._next_s = progress.clock() + self._interval_s

    def update(self, progress: Progress) -> None:
        if progress.clock() >= self._next_s:
            self._line(progress, "")

    def evaluated(self, progress: Progress) -> None:
        shown = "-" if progress.last_return is None else f"{progress.last_return:.2f}"
        self._line(progress, f"return {shown}, ")

    def stopping(self) -> None:
        write_notice()

    def finish(self, progress: Progress, sentence: str, ok: bool) -> None:
        logger.log(logging.INFO if ok else logging.WARNING, "%s: %s", progress.exp_name, sentence)

    def _line(self, progress: Progress, head: str) -> None:
        now_s = progress.clock()
        self._next_s = now_s + self._interval_s
        env_rate, train_rate = self._meter.measure(now_s, progress.env_step, progress.train_iter)
        logger.info(
            "%senv step %d (%.0f/s), train iter %d (%.0f/s), buffer %d/%d, %s, left %s",
            head,
            progress.env_step,
            env_rate,
            progress.train_iter,
            train_rate,
            progress.buffer_count(),
            progress.buffer_size,
            clock_text(progress.elapsed_s),
            clock_text(time_left_s(progress, env_rate, train_rate)),
        )


class _OwnLines(logging.Filter):
    """Lets through warnings, and the lines of modules; the tables of components are in their files."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.name.startswith("ding.")


class _StderrHandler(logging.StreamHandler):
    """Writes to what ``sys.stderr`` is at that moment: the live view puts a stream of its own there."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """The stream is not a choice."""


class console_lines:
    """Context manager: show the library's lines on standard error, unless the application set up logging itself."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("ding")
        self._handler = _StderrHandler()
        self._handler.setFormatter(logging.Formatter("[%(asctime)s] %(message)s", "%H:%M:%S"))
        self._handler.addFilter(_OwnLines())
        self._level: int | None = None

    def __enter__(self) -> console_lines:
        if logging.getLogger().handlers or self._logger.handlers:
            return self
        self._logger.addHandler(self._handler)
        self._level = self._logger.level
        if self._level == logging.NOTSET:
            self._logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._level is not None:
            self._logger.removeHandler(self._handler)
            self._logger.setLevel(self._level)
            self._level = None


def make_view(quiet: bool = False) -> ProgressView:
    """Return the live view when standard output is a terminal and ``quiet`` is False, else the plain one."""
    if quiet or not sys.stdout.isatty():
        return PlainView()
    from ding.entry._live_view import LiveView

    return LiveView()
