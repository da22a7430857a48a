"""Status of a run: one snapshot for both modes, from which all displays and outputs are made.

A pipeline creates a ``RunStatus`` repeatedly and passes it to a view (``ding.entry.view.views``); the last one becomes
``result.json``. The learning curves of ``ding plot`` are the same figures over time, in the event files.
"""

import datetime
import json
import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ding.parallel.launch import ProcessStatus
from ding.rollout.evaluation_result import EvaluationResult
from ding.utils.file_helper import write_text
from ding.utils.nested import map_nested

UNBOUNDED = int(1e8)
"""Limits of at least this many steps or iterations count as no limit, and no progress towards them is shown."""


_TASK_ID = re.compile(r"_([0-9a-f]{6})[0-9a-f]{2}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}_\d{6}")


def bounded(**limits: float) -> dict[str, int]:
    """Return the limits that are actual limits."""
    return {key: int(limit) for key, limit in limits.items() if limit < UNBOUNDED}


@dataclass(frozen=True)
class WorkerStatus:
    """State of a worker of a parallel run, and the number of versions by which its policy lags behind."""

    does: str
    version_lag: float | None = None


@dataclass
class Evaluations:
    """Results of the evaluations of a run so far; the fields are those of :class:`RunStatus`."""

    solved: bool = False
    evaluations: int = 0
    returns: tuple[float, ...] = ()
    last_return: float | None = None
    best_return: float | None = None
    last_evaluation: EvaluationResult | None = None
    best_evaluation: EvaluationResult | None = None

    def note(
        self, solved: bool, returns: Sequence[float], mean: float | None = None, train_iter: int | None = None
    ) -> None:
        """Record an evaluation.

        Args:
            solved: Whether it reached the stop value.
            returns: Return of each episode, if known.
            mean: Mean return; by default that of ``returns``.
            train_iter: Train iterations of the policy.
        """
        self.solved, self.returns = solved, tuple(float(one) for one in returns)
        self.evaluations += 1
        if self.returns:
            self._note(EvaluationResult.of(self.returns, train_iter))
        elif mean is not None:
            self._note(EvaluationResult(mean, train_iter=train_iter))

    def _note(self, result: EvaluationResult) -> None:
        self.last_evaluation, self.last_return = result, result.mean
        # As for checkpoints: of equal ones, the first is the best.
        if self.best_return is None or result.mean > self.best_return:
            self.best_evaluation, self.best_return = result, result.mean

    def note_best(self, result: EvaluationResult) -> None:
        """Record the best evaluation of the previous run, which this one continues."""
        self.best_evaluation, self.best_return = result, result.mean


@dataclass(frozen=True)
class RunStatus:
    """Status of a run at one moment.

    Attributes:
        env_step: Env steps of all collector envs.
        train_iter: Train iterations.
        elapsed_s: Seconds since the start of the run (including the runs it resumes).
        max_env_step, max_train_iter: Limits.
        stop_value: Mean return at which the run is solved; ``None`` if it is not a number.
        evaluations: Number of evaluations.
        returns: Return of each episode of the last evaluation, if known.
        last_return, best_return: Mean return of the last and of the best evaluation.
        last_evaluation, best_evaluation: Both with more statistics.
        buffer_rows, buffer_size: Number of samples in the buffers, and their capacity.
        pushed_rows, sampled_rows: Total numbers of samples; ``None`` if they are not counted.
        processes, workers: Processes and workers of a parallel run, by name.
        report: Last report of the coordinator of a parallel run (JSON-like).
    """

    exp_name: str
    env_step: int = 0
    train_iter: int = 0
    elapsed_s: float = 0.0
    max_env_step: float = UNBOUNDED
    max_train_iter: float = UNBOUNDED
    stop_value: float | None = None
    solved: bool = False
    evaluations: int = 0
    returns: tuple[float, ...] = ()
    last_return: float | None = None
    best_return: float | None = None
    last_evaluation: EvaluationResult | None = None
    best_evaluation: EvaluationResult | None = None
    buffer_rows: int = 0
    buffer_size: int | None = None
    pushed_rows: int | None = None
    sampled_rows: int = 0
    processes: Mapping[str, ProcessStatus] = field(default_factory=dict)
    workers: Mapping[str, WorkerStatus] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """Progress in [0, 1] towards the nearest limit, or ``None`` without a limit."""
        pairs = ((self.env_step, self.max_env_step), (self.train_iter, self.max_train_iter))
        shares = [done / limit for done, limit in pairs if 0 < limit < UNBOUNDED]
        return min(1.0, max(shares)) if shares else None

    @property
    def sample_ratio(self) -> float | None:
        """Number of sampled rows per pushed row over the whole run; ``None`` before the first."""
        return self.sampled_rows / self.pushed_rows if self.pushed_rows else None

    @property
    def alarm(self) -> str:
        """Reason why a parallel run waits, e.g. that all collectors are lost; else empty."""
        return str(self.report.get("alarm") or "")

    @property
    def collectors(self) -> str:
        """Numbers of connected and requested collectors of a parallel run; empty for a single process."""
        wanted = self.report.get("collectors_wanted")
        workers = (self.report.get("workers") or {}).values()
        connected = sum(worker.get("role") == "collector" for worker in workers)
        return "" if wanted is None else f"{connected} of {wanted} collectors"

    def describe_end(self) -> str:
        """Return a sentence about the end of the run."""
        counts = f"{self.env_step} env steps and {self.train_iter} train iterations"
        sentence = f"{self._end()}: {self._last_text()} after {counts} in {self.elapsed_s:.1f} s{self._best_text()}"
        if self.train_iter > 0:
            return sentence
        held = "" if self.buffer_size is None else f" (the replay buffer held {self.buffer_rows} rows)"
        return f"{sentence}; nothing was learned: it ended before the first update{held}"

    @property
    def goal(self) -> str:
        """``solved at 195``; empty without a reachable stop value."""
        known = self.stop_value is not None and self.stop_value < UNBOUNDED
        return f"solved at {self.stop_value:g}" if known and not self.solved else ""

    @property
    def last_is_best(self) -> bool:
        """Whether no earlier evaluation was as good as the last one."""
        if self.last_evaluation is None or self.best_evaluation is None:
            return self.best_return is None or self.best_return == self.last_return
        return self.best_evaluation == self.last_evaluation

    def _last_text(self) -> str:
        if self.last_return is None:
            return "no evaluation"
        last = self.last_evaluation or EvaluationResult(self.last_return)
        name = "last and best evaluation" if self.last_is_best else "last evaluation"
        return f"{name}: {last.describe(self.goal)}"

    def _best_text(self) -> str:
        if self.last_is_best or self.best_return is None:
            return ""
        best = self.best_evaluation or EvaluationResult(self.best_return)
        when = "" if best.train_iter is None else f" after {best.train_iter} train iterations"
        return f"; best evaluation: {best.describe()}{when}"

    def _end(self) -> str:
        if self.solved:
            return "solved" if self.stop_value is None else f"solved, the stop value is {self.stop_value:g}"
        if self.env_step >= self.max_env_step:
            return f"reached its limit of {self.max_env_step:.0f} env steps"
        if self.train_iter >= self.max_train_iter:
            return f"reached its limit of {self.max_train_iter:.0f} train iterations"
        return "reached its end"


@dataclass(frozen=True)
class Rates:
    """Rates per second. ``left_s``: seconds until the nearer limit at these rates; ``None`` without a limit."""

    env_step: float
    train_iter: float
    pushed_rows: float
    left_s: float | None


class RateMeter:
    """Measures rates over the last ``window_s`` seconds; call ``measure`` about once per update of the display."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._window_s = window_s
        self._points: deque[tuple[float, int, int, int]] = deque()

    def measure(self, now_s: float, status: RunStatus) -> Rates:
        """Return the rates until ``now_s``, given the current ``status``."""
        newest = (now_s, status.env_step, status.train_iter, status.pushed_rows or 0)
        self._points.append(newest)
        while len(self._points) > 2 and now_s - self._points[1][0] >= self._window_s:
            self._points.popleft()
        oldest = self._points[0]
        passed_s = now_s - oldest[0]
        env, train, pushed = (
            (new - old) / passed_s if passed_s > 0 else 0.0 for new, old in zip(newest[1:], oldest[1:])
        )
        pairs = (
            (status.max_env_step - status.env_step, status.max_env_step, env),
            (status.max_train_iter - status.train_iter, status.max_train_iter, train),
        )
        left = [max(0.0, missing) / rate for missing, limit, rate in pairs if limit < UNBOUNDED and rate > 0]
        return Rates(env, train, pushed, min(left) if left else None)


def clock_text(seconds: float | None) -> str:
    """Format as ``h:mm:ss`` or ``mm:ss``; a dash for ``None``."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def left_text(seconds: float | None) -> str:
    """Format as ``left 00:08``; empty without a limit."""
    return "" if seconds is None else f"left {clock_text(seconds)}"


def short_ids(text: str) -> str:
    """Shorten the 43-character task ids in a text to their first characters."""
    return _TASK_ID.sub(r" \1", text)


def number_text(value: float | None) -> str:
    """Format as ``9.5`` or ``12.34``; a dash for ``None``."""
    return "-" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def write_run_result(status: RunStatus) -> None:
    """Write the result of a single-process run; ``eval_value`` is the mean return of the last evaluation, if any."""
    result = {
        "stop": status.solved,
        "env_step": status.env_step,
        "train_iter": status.train_iter,
        "eval_value": status.last_return,
        "eval_value_raw": list(status.returns),
        **evaluations_of(status),
        "finish_time": datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
    }
    write_result(status.exp_name, result)


def evaluations_of(status: RunStatus) -> dict[str, dict[str, Any] | None]:
    """Return the last and the best evaluation of a run as JSON-like data."""
    found = {"last_evaluation": status.last_evaluation, "best_evaluation": status.best_evaluation}
    return {name: None if result is None else result.as_dict() for name, result in found.items()}


def write_result(exp_name: str, result: Mapping[str, Any]) -> None:
    """Write ``<exp_name>/result.json``. DI-engine writes a pickle, which can execute code on reading."""
    write_text(Path(exp_name) / "result.json", json.dumps(result, indent=2))


def finite(value: Any) -> object:
    """Return JSON-like data with ``None`` for non-finite numbers, which JSON does not support."""
    return map_nested(lambda leaf: None if isinstance(leaf, float) and not math.isfinite(leaf) else leaf, value)
