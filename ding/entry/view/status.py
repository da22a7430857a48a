"""How a run does: one snapshot for both modes, from which everything that people or programs see is made.

A pipeline makes a ``RunStatus`` now and then and hands it to a view (``ding.entry.view.views``); the last one becomes
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
"""A limit of at least this many steps or iterations counts as no limit: no share of it is shown."""


_TASK_ID = re.compile(r"_([0-9a-f]{6})[0-9a-f]{2}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}_\d{6}")


def bounded(**limits: float) -> dict[str, int]:
    """Return those of the limits that are limits."""
    return {key: int(limit) for key, limit in limits.items() if limit < UNBOUNDED}


@dataclass(frozen=True)
class WorkerStatus:
    """What a worker of a parallel run does, and how many versions its policy is behind."""

    does: str
    version_lag: float | None = None


@dataclass
class Evaluations:
    """What the evaluations of a run have found so far; its fields are those of :class:`RunStatus`."""

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
        """Count an evaluation.

        Args:
            solved: whether it reached the stop value.
            returns: return of each episode, where they are known one by one.
            mean: mean return; that of ``returns`` when not given.
            train_iter: train iterations of the policy.
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
        """Note the best evaluation of the run before, which this one continues."""
        self.best_evaluation, self.best_return = result, result.mean


@dataclass(frozen=True)
class RunStatus:
    """A snapshot of a run.

    Attributes:
        env_step: steps of all collector envs.
        train_iter: optimisation steps.
        elapsed_s: seconds since the run (or what a resumed run goes on with) began.
        max_env_step, max_train_iter: the limits.
        stop_value: the mean return at which the run is solved; ``None`` when it is no number.
        evaluations: how many evaluations are over.
        returns: return of each episode of the last evaluation, where they are known one by one.
        last_return, best_return: mean return of the last and of the best evaluation.
        last_evaluation, best_evaluation: both in more numbers.
        buffer_rows, buffer_size: samples in the buffers, and how many they can hold.
        pushed_rows, sampled_rows: samples so far; ``None`` where nothing counts them.
        processes, workers: of a parallel run, by name.
        report: what the coordinator of a parallel run reported last, whole (JSON-like).
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
        """Done share in [0, 1] of the limit that is nearest, or ``None`` when there is no limit."""
        pairs = ((self.env_step, self.max_env_step), (self.train_iter, self.max_train_iter))
        shares = [done / limit for done, limit in pairs if 0 < limit < UNBOUNDED]
        return min(1.0, max(shares)) if shares else None

    @property
    def sample_ratio(self) -> float | None:
        """Samples drawn per sample pushed, over the whole run; ``None`` before the first."""
        return self.sampled_rows / self.pushed_rows if self.pushed_rows else None

    @property
    def alarm(self) -> str:
        """What a parallel run waits for, such as collectors when it lost all of them; else empty."""
        return str(self.report.get("alarm") or "")

    @property
    def collectors(self) -> str:
        """How many collectors of a parallel run are connected and how many it is to have; empty in one process."""
        wanted = self.report.get("collectors_wanted")
        workers = (self.report.get("workers") or {}).values()
        connected = sum(worker.get("role") == "collector" for worker in workers)
        return "" if wanted is None else f"{connected} of {wanted} collectors"

    def describe_end(self) -> str:
        """Return how the run ended, in one sentence."""
        counts = f"{self.env_step} env steps and {self.train_iter} train iterations"
        sentence = f"{self._end()}: {self._last_text()} after {counts} in {self.elapsed_s:.1f} s{self._best_text()}"
        if self.train_iter > 0:
            return sentence
        held = "" if self.buffer_size is None else f" (the replay buffer held {self.buffer_rows} rows)"
        return f"{sentence}; nothing was learned: it ended before the first update{held}"

    @property
    def goal(self) -> str:
        """``solved at 195``; empty without a stop value that can be reached."""
        known = self.stop_value is not None and self.stop_value < UNBOUNDED
        return f"solved at {self.stop_value:g}" if known and not self.solved else ""

    @property
    def last_is_best(self) -> bool:
        """Whether no evaluation before the last one was as good."""
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
    """Per second. ``left_s``: seconds until the nearer limit at these rates, ``None`` when there is none."""

    env_step: float
    train_iter: float
    pushed_rows: float
    left_s: float | None


class RateMeter:
    """Rates over the last ``window_s`` seconds; ``measure`` is called about once per drawing."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._window_s = window_s
        self._points: deque[tuple[float, int, int, int]] = deque()

    def measure(self, now_s: float, status: RunStatus) -> Rates:
        """Return the rates until ``now_s``, when the run was at ``status``."""
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
    """``h:mm:ss`` or ``mm:ss``; a dash for ``None``."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def left_text(seconds: float | None) -> str:
    """``left 00:08``; empty where there is no limit."""
    return "" if seconds is None else f"left {clock_text(seconds)}"


def short_ids(text: str) -> str:
    """A text with the first characters of each id of a task in place of its 43."""
    return _TASK_ID.sub(r" \1", text)


def number_text(value: float | None) -> str:
    """``9.5`` or ``12.34``; a dash for ``None``."""
    return "-" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def write_run_result(status: RunStatus) -> None:
    """Write how a run of one process ended; ``eval_value`` is the mean return of the last evaluation, if any."""
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
    """Write ``<exp_name>/result.json``. DI-engine writes a pickle, which runs code when it is read."""
    write_text(Path(exp_name) / "result.json", json.dumps(result, indent=2))


def finite(value: Any) -> object:
    """Return JSON-like data with ``None`` for each number that is not finite, which JSON does not have."""
    return map_nested(lambda leaf: None if isinstance(leaf, float) and not math.isfinite(leaf) else leaf, value)
