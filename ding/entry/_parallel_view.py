"""How a parallel run does, for people: a table that renews itself on a terminal, lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ding.entry._progress import RateMeter, clock_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

logger = logging.getLogger("ding.entry")

_EVERY_S = 10.0


class Picture:
    """The newest status of the coordinator, made into figures; rates are over the last seconds.

    Attributes:
        status: What `GET /status` answers, too.
        processes: The launcher's states of the processes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.status: dict[str, Any] = {}
        self.processes: dict[str, dict[str, Any]] = {}
        self.env_rate = self.train_rate = self.row_rate = self.sample_rate = 0.0
        self._steps, self._rows = RateMeter(), RateMeter()
        self._clock = clock
        self._began_s = clock()

    def take(self, status: Mapping[str, Any] | None, processes: Mapping[str, dict[str, Any]]) -> bool:
        """Take a new state; returns whether an evaluation is among what is new."""
        self.processes = dict(processes)
        if status is None or status == self.status:
            return False
        evaluated = status.get("last_evaluation") != self.status.get("last_evaluation")
        self.status = dict(status)
        now_s = self._clock()
        self.env_rate, self.train_rate = self._steps.measure(now_s, self.env_step, self.train_iter)
        buffers = status.get("buffers", {})
        rows, sampled = int(buffers.get("rows", 0)), int(buffers.get("sampled_rows", 0))
        self.row_rate, self.sample_rate = self._rows.measure(now_s, rows, sampled)
        return evaluated

    @property
    def env_step(self) -> int:
        return int(self.status.get("env_step", 0))

    @property
    def train_iter(self) -> int:
        return int(self.status.get("train_iter", 0))

    @property
    def last_return(self) -> float | None:
        return self.status.get("return")

    @property
    def sample_ratio(self) -> float | None:
        """Samples drawn per sample pushed, over the whole run; None before the first."""
        buffers = self.status.get("buffers", {})
        pushed = buffers.get("rows", 0)
        return buffers.get("sampled_rows", 0) / pushed if pushed else None

    @property
    def buffer_rows(self) -> int:
        held = self.status.get("buffers", {}).get("held", {})
        return sum(int(one.get("rows", 0)) for one in held.values())

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began_s

    def line(self) -> str:
        """Return the run in one line."""
        working = sum(picture["state"] == "running" for picture in self.processes.values())
        restarts = sum(picture["restarts"] for picture in self.processes.values())
        ratio = "-" if self.sample_ratio is None else f"{self.sample_ratio:.2f}"
        return (
            f"return {_number(self.last_return)}, env step {self.env_step} ({self.env_rate:.0f}/s), "
            f"train iter {self.train_iter} ({self.train_rate:.0f}/s), sample/insert {ratio}, "
            f"buffer {self.buffer_rows}, {working} processes ({restarts} restarts), {clock_text(self.elapsed_s)}"
        )


class ParallelView(Protocol):
    """Shows a run; called by the launcher's thread only."""

    def start(self, exp_name: str) -> None:
        """The processes are about to be started."""

    def update(self, picture: Picture, evaluated: bool) -> None:
        """Something changed; ``evaluated``: an evaluation is over."""

    def finish(self, sentence: str, ok: bool) -> None:
        """The run is over; called once, also after errors."""


class PlainParallelView:
    """A log line per evaluation, and a sign of life every ``interval_s`` seconds between them."""

    def __init__(self, interval_s: float = _EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._next_s = 0.0
        self._exp_name = ""

    def start(self, exp_name: str) -> None:
        self._exp_name = exp_name
        self._next_s = self._clock() + self._interval_s
        logger.info("%s: the processes start", exp_name)

    def update(self, picture: Picture, evaluated: bool) -> None:
        if evaluated or self._clock() >= self._next_s:
            self._next_s = self._clock() + self._interval_s
            logger.info("%s", picture.line())

    def finish(self, sentence: str, ok: bool) -> None:
        logger.log(logging.INFO if ok else logging.WARNING, "%s: %s", self._exp_name, sentence)


class LiveParallelView:
    """A table of the roles below the figures of the run, drawn a few times per second by a thread of its own."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console

        self._console = console or Console()
        self._exp_name = ""
        self._picture: Picture | None = None
        self._live: Any = None

    def start(self, exp_name: str) -> None:
        from rich.live import Live

        self._exp_name = exp_name
        self._live = Live(get_renderable=self.render, console=self._console, refresh_per_second=4, transient=False)
        self._live.start()

    def update(self, picture: Picture, evaluated: bool) -> None:
        self._picture = picture

    def finish(self, sentence: str, ok: bool) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(f"{self._exp_name}: {sentence}", markup=False, highlight=False, soft_wrap=True)

    def render(self) -> RenderableType:
        """Return what is drawn now."""
        from rich.console import Group
        from rich.table import Table

        picture = self._picture
        if picture is None:
            return f"{self._exp_name}: the processes start"
        run = Table.grid(padding=(0, 2))
        ratio = "-" if picture.sample_ratio is None else f"{picture.sample_ratio:.2f}"
        run.add_row("experiment", self._exp_name)
        run.add_row("env step", f"{picture.env_step:,}", f"{picture.env_rate:,.0f}/s")
        run.add_row("train iter", f"{picture.train_iter:,}", f"{picture.train_rate:,.0f}/s")
        run.add_row("return", _number(picture.last_return))
        run.add_row("buffer", f"{picture.buffer_rows:,}", f"{picture.row_rate:,.0f} in/s, sample/insert {ratio}")
        run.add_row("time", clock_text(picture.elapsed_s))
        roles = Table("role", "state", "does", "pid", "restarts", "up", "policy lag", box=None, padding=(0, 2))
        workers = picture.status.get("workers", {})
        for name, process in picture.processes.items():
            does = workers.get(name, {})
            roles.add_row(
                name,
                process["state"],
                str(does.get("task_id") or does.get("state") or "-"),
                str(process["pid"] or "-"),
                str(process["restarts"]),
                clock_text(process["uptime_s"]),
                _number(does.get("version_lag")),
            )
        return Group(run, roles)


def make_parallel_view(quiet: bool = False) -> ParallelView:
    """Return the live view when standard output is a terminal and ``quiet`` is False, else the plain one."""
    return PlainParallelView() if quiet or not sys.stdout.isatty() else LiveParallelView()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")
