"""Views of a run: a live view on a terminal, log lines elsewhere."""

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
    """Displays a run. The thread of the pipeline calls all methods."""

    def start(self, status: RunStatus) -> None:
        """Called at the start of the run."""

    def update(self, status: RunStatus) -> None:
        """Called with the current status, a few times per second and after each evaluation."""

    def stopping(self) -> None:
        """Called if a signal requests a stop, inside the signal's handler: use no locks and no buffered writes."""

    def finish(self, sentence: str, ok: bool) -> None:
        """Called once at the end, also after errors; ``sentence`` describes it, ``ok``: the run ended by itself."""


class PlainView:
    """Logs one line per evaluation, and a heartbeat every ``interval_s`` seconds in between."""

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
    """Return the live view if standard output is a terminal and ``quiet`` is ``False``, else the plain one."""
    if quiet or get_rank() > 0 or not sys.stdout.isatty():
        return PlainView()
    from ding.entry.view.live import LiveView

    return LiveView()


class _OwnLines(logging.Filter):
    """Passes warnings and the lines of modules; tables of components are only in their files."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.name.startswith("ding.")


class _Short(logging.Formatter):
    """Omits tracebacks of other processes, which are in their logs, and shortens task ids."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = short_ids(without_traceback(record.message))
        return super().formatMessage(record)


class _StderrHandler(logging.Handler):
    """Writes to the current ``sys.stderr``: the live view replaces the stream."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()


@contextlib.contextmanager
def console_lines() -> Iterator[None]:
    """Show the library's log lines on standard error, unless the application has configured logging."""
    library = logging.getLogger("ding")
    if get_rank() > 0:
        # Of several processes only the first one writes.
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
