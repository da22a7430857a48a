"""What shows a run: a live view on a terminal, log lines elsewhere."""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from ding.entry.view.failure import without_traceback
from ding.entry.view.status import RateMeter, RunStatus, clock_text, left_text, number_text, short_ids
from ding.parallel.launch.signals import write_notice
from ding.utils import get_rank

logger = logging.getLogger("ding.entry")


class RunView(Protocol):
    """Shows a run. All methods are called by the thread of the pipeline."""

    def start(self, status: RunStatus) -> None:
        """The run begins."""

    def update(self, status: RunStatus) -> None:
        """The run is at ``status`` now: a few times per second, and after each evaluation."""

    def stopping(self) -> None:
        """A signal asked the run to stop. Called inside the signal's handler: no locks, no buffered writes."""

    def finish(self, sentence: str, ok: bool) -> None:
        """The run is over; ``sentence`` says how it ended, ``ok`` whether by itself. Called once, also after errors."""


class PlainView:
    """One log line per evaluation, and a sign of life every ``interval_s`` seconds between them."""

    def __init__(self, interval_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._meter = RateMeter()
        self._next_s = 0.0
        self._evaluations = 0
        self._exp_name = ""

    def start(self, status: RunStatus) -> None:
        logger.info("%s: the run starts", status.exp_name)
        self._exp_name, self._evaluations = status.exp_name, status.evaluations
        self._meter.measure(self._clock(), status)
        self._next_s = self._clock() + self._interval_s

    def update(self, status: RunStatus) -> None:
        now_s = self._clock()
        if now_s < self._next_s and status.evaluations == self._evaluations:
            return
        self._next_s, self._evaluations = now_s + self._interval_s, status.evaluations
        logger.info("%s", self._line(status, now_s))

    def stopping(self) -> None:
        write_notice()

    def finish(self, sentence: str, ok: bool) -> None:
        name = f"{self._exp_name}: " if self._exp_name else ""
        logger.log(logging.INFO if ok else logging.WARNING, "%s%s", name, sentence)

    def _line(self, status: RunStatus, now_s: float) -> str:
        rates = self._meter.measure(now_s, status)
        parts = [
            _return_text(status),
            f"env step {status.env_step} ({rates.env_step:.0f}/s)",
            f"train iter {status.train_iter} ({rates.train_iter:.0f}/s)",
        ]
        if status.pushed_rows is not None:
            parts.append(f"sample/insert {number_text(status.sample_ratio)}")
        if status.buffer_rows or status.buffer_size:
            parts.append(f"buffer {status.buffer_rows}" + (f"/{status.buffer_size}" if status.buffer_size else ""))
        if status.processes:
            running = sum(process.state == "running" for process in status.processes.values())
            restarts = sum(process.restarts for process in status.processes.values())
            parts.append(f"{running} processes ({restarts} restarts)")
        parts += [status.collectors, status.alarm]
        parts += [clock_text(status.elapsed_s), left_text(rates.left_s)]
        return ", ".join(part for part in parts if part)


def _return_text(status: RunStatus) -> str:
    last = status.last_evaluation
    return f"return {number_text(status.last_return)}" + (f" ({last.spread})" if last and last.spread else "")


def make_view(quiet: bool = False) -> RunView:
    """Return the live view when standard output is a terminal and ``quiet`` is ``False``, else the plain one."""
    if quiet or get_rank() > 0 or not sys.stdout.isatty():
        return PlainView()
    from ding.entry.view.live import LiveView

    return LiveView()


class _OwnLines(logging.Filter):
    """Lets through warnings, and the lines of modules; the tables of components are in their files."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.name.startswith("ding.")


class _Short(logging.Formatter):
    """Leaves out the tracebacks of other processes, which are in their logs, and most of the ids of tasks."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = short_ids(without_traceback(record.message))
        return super().formatMessage(record)


class _StderrHandler(logging.Handler):
    """Writes to what ``sys.stderr`` is at that moment: the live view puts a stream of its own there."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()


@contextlib.contextmanager
def console_lines() -> Iterator[None]:
    """Show the library's lines on standard error, unless the application set up logging itself."""
    library = logging.getLogger("ding")
    if get_rank() > 0:
        # Of several processes the first one speaks.
        yield
        return
    if logging.getLogger().handlers or library.handlers:
        yield
        return
    handler, level = _StderrHandler(), library.level
    handler.setFormatter(_Short("[%(asctime)s] %(message)s", "%H:%M:%S"))
    handler.addFilter(_OwnLines())
    library.addHandler(handler)
    if level == logging.NOTSET:
        library.setLevel(logging.INFO)
    try:
        yield
    finally:
        library.removeHandler(handler)
        library.setLevel(level)
