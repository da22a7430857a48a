"""View for a terminal: a few lines that are updated in place (rich)."""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ding.entry.view.status import UNBOUNDED, RateMeter, RunStatus, clock_text, left_text, number_text, short_ids
from ding.parallel.launch.signals import NOTICE

_REFRESH_PER_S = 4
_BAR_WIDTH = 50
_SHOW_CURSOR = b"\x1b[?25h"


class LiveView:
    """Draws the newest status in a background thread a few times per second."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console()
        self._clock = clock
        self._meter = RateMeter()
        self._newest = RunStatus(""), clock()
        self._live: Live | None = None
        self._stopping = False

    def start(self, status: RunStatus) -> None:
        self.update(status)
        self._live = Live(
            get_renderable=self.render, console=self._console, refresh_per_second=_REFRESH_PER_S, transient=False
        )
        self._live.start()

    def update(self, status: RunStatus) -> None:
        self._newest = status, self._clock()

    def stopping(self) -> None:
        self._stopping = True
        if self._console.is_terminal:
            # A second signal ends the process at once; the cursor hidden by the live view would stay hidden.
            with contextlib.suppress(OSError, ValueError):
                os.write(self._console.file.fileno(), _SHOW_CURSOR)

    def finish(self, sentence: str, ok: bool) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        text = f"{self._newest[0].exp_name}: {sentence}"
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def render(self) -> RenderableType:
        """Return the current display."""
        status, taken_s = self._newest
        now_s = self._clock()
        status = replace(status, elapsed_s=status.elapsed_s + now_s - taken_s)
        parts: list[RenderableType] = [self._figures(status, now_s)]
        if status.share is not None:
            bar = Table.grid(padding=(0, 2))
            bar.add_row(ProgressBar(total=1.0, completed=status.share, width=_BAR_WIDTH), f"{status.share:.0%}")
            parts.append(bar)
        if status.processes:
            parts.append(_process_table(status))
        if self._stopping:
            parts.append(NOTICE)
        return Group(*parts)

    def _figures(self, status: RunStatus, now_s: float) -> Table:
        rates = self._meter.measure(now_s, status)
        table = Table.grid(padding=(0, 2))
        table.add_row("experiment", status.exp_name)
        table.add_row("env step", _count(status.env_step, status.max_env_step), f"{rates.env_step:,.0f}/s")
        table.add_row("train iter", _count(status.train_iter, status.max_train_iter), f"{rates.train_iter:,.0f}/s")
        table.add_row("return", _return_text(status), f"{status.evaluations} evaluations")
        size = f" / {status.buffer_size:,}" if status.buffer_size else ""
        counted = status.pushed_rows is not None
        flow = f"{rates.pushed_rows:,.0f} in/s, sample/insert {number_text(status.sample_ratio)}" if counted else ""
        if status.buffer_rows or size:
            table.add_row("buffer", f"{status.buffer_rows:,}{size}", flow)
        if status.collectors:
            table.add_row("connected", status.collectors)
        if status.alarm:
            table.add_row("alarm", status.alarm)
        table.add_row("time", clock_text(status.elapsed_s), left_text(rates.left_s))
        return table


def _process_table(status: RunStatus) -> Table:
    table = Table("role", "state", "does", "pid", "restarts", "up", "policy lag", box=None, padding=(0, 2))
    for name, process in status.processes.items():
        worker = status.workers.get(name)
        table.add_row(
            name,
            process.state,
            short_ids(worker.does) if worker else "-",
            str(process.pid or "-"),
            str(process.restarts),
            clock_text(process.uptime_s),
            number_text(worker.version_lag if worker else None),
        )
    return table


def _count(done: int, limit: float) -> str:
    return f"{done:,} / {int(limit):,}" if limit < UNBOUNDED else f"{done:,}"


def _return_text(status: RunStatus) -> str:
    text = number_text(status.last_return)
    if status.last_return is None:
        return text
    if status.best_return is not None and status.best_return > status.last_return:
        text += f", best {number_text(status.best_return)}"
    return text + (f" ({status.goal})" if status.goal else "")
