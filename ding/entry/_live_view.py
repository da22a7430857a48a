"""The view for a terminal: a few lines that renew themselves (rich)."""

from __future__ import annotations

import contextlib
import os

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ding.entry._progress import UNBOUNDED, Progress, RateMeter, clock_text, time_left_s
from ding.entry._signals import NOTICE

_REFRESH_PER_S = 4
_BAR_WIDTH = 50
_SHOW_CURSOR = b"\x1b[?25h"


class LiveView:
    """Draws from a thread of its own a few times per second, so the loop pays nothing per pass."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._meter = RateMeter()
        self._progress: Progress | None = None
        self._live: Live | None = None
        self._stopping = False

    def start(self, progress: Progress) -> None:
        self._progress = progress
        self._live = Live(
            get_renderable=self.picture, console=self._console, refresh_per_second=_REFRESH_PER_S, transient=False
        )
        self._live.start()

    def update(self, progress: Progress) -> None:
        return None

    def evaluated(self, progress: Progress) -> None:
        return None

    def stopping(self) -> None:
        self._stopping = True
        if self._console.is_terminal:
            # A second signal ends the process at once; the cursor that the live view hides would stay hidden.
            with contextlib.suppress(OSError, ValueError):
                os.write(self._console.file.fileno(), _SHOW_CURSOR)

    def finish(self, progress: Progress, sentence: str, ok: bool) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(f"{progress.exp_name}: {sentence}", markup=False, highlight=False, soft_wrap=True)

    def picture(self) -> RenderableType:
        """Return what is drawn now."""
        progress = self._progress
        if progress is None:
            return ""
        env_rate, train_rate = self._meter.measure(progress.clock(), progress.env_step, progress.train_iter)
        left_s = time_left_s(progress, env_rate, train_rate)
        table = Table.grid(padding=(0, 2))
        table.add_row("experiment", progress.exp_name)
        table.add_row("env step", _count(progress.env_step, progress.max_env_step), f"{env_rate:,.0f}/s")
        table.add_row("train iter", _count(progress.train_iter, progress.max_train_iter), f"{train_rate:,.0f}/s")
        table.add_row("return", _return_text(progress), f"{progress.evaluations} evaluations")
        table.add_row("buffer", f"{progress.buffer_count():,} / {progress.buffer_size:,}")
        table.add_row("time", clock_text(progress.elapsed_s), f"left {clock_text(left_s)}")
        parts: list[RenderableType] = [table]
        share = progress.share()
        if share is not None:
            bar = Table.grid(padding=(0, 2))
            bar.add_row(ProgressBar(total=1.0, completed=share, width=_BAR_WIDTH), f"{share:.0%}")
            parts.append(bar)
        if self._stopping:
            parts.append(NOTICE)
        return Group(*parts)


def _count(done: int, limit: float) -> str:
    return f"{done:,} / {int(limit):,}" if limit < UNBOUNDED else f"{done:,}"


def _return_text(progress: Progress) -> str:
    if progress.last_return is None:
        return "-"
    text = f"{progress.last_return:.2f}"
    if progress.stop_value < UNBOUNDED:
        text += f" of {progress.stop_value:g}"
    if progress.best_return is not None and progress.best_return > progress.last_return:
        text += f" (best {progress.best_return:.2f})"
    return text
