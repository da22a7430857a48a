"""Reports of a coordinator about a parallel run: as JSON, as a ``RunStatus``, and as the result of the run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ding.entry.view.experiment import next_steps
from ding.entry.view.status import UNBOUNDED, RunStatus, WorkerStatus, evaluations_of, write_result
from ding.parallel.launch import ProcessStatus
from ding.rollout.evaluation_result import EvaluationResult
from ding.utils.checkpoint import progress_of, rename_checkpoint, train_iter_of
from ding.worker.collector.base_serial_evaluator import BEST_CKPT_NAME

_RESUME_PREFIX = "resume_"
_FIGURES = ("solved", "return", "best_return", "env_step", "train_iter", "elapsed_s")
_DETAILS = ("tasks", "buffers", "duplicates")


def with_run_figures(report: Mapping[str, Any], elapsed_s: float, rows_are_steps: bool = True) -> dict[str, Any]:
    """Return the coordinator's status with the figures of the run under the names of the serial mode.

    ``env_step`` counts the steps whose samples were pushed, or those of finished collector tasks if a sample is not one
    step or none was pushed. ``return`` is the mean return of the last evaluation.
    """
    rows = int((report.get("buffers") or {}).get("rows", 0)) // int(report.get("samples_per_step", 1))
    last = report.get("last_evaluation") or {}
    env_step = rows if rows and rows_are_steps else max(int(report.get("envstep", 0)), rows)
    return {**report, "env_step": env_step, "return": last.get("reward_mean"), "elapsed_s": elapsed_s}


class ReportReader:
    """Converts each report to a ``RunStatus``; counts evaluations and seconds across restarts of the coordinator.

    Args:
        exp_name: Experiment folder.
        limits: ``train_iter`` and ``env_step`` at which the run ends, if it has limits.
        stop_value: Mean return at which the run is solved.
    """

    def __init__(
        self,
        exp_name: str,
        limits: Mapping[str, int],
        stop_value: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exp_name = exp_name
        self._limits = limits
        self._stop_value = stop_value
        self._clock = clock
        self._began_s = clock()
        self._report: Mapping[str, Any] = {}
        self._evaluations = 0
        self._best: EvaluationResult | None = None

    def read(
        self, report: Mapping[str, Any] | None = None, processes: Mapping[str, ProcessStatus] | None = None
    ) -> RunStatus:
        """Return the status by the newest report; ``None``: by the previous one, with the current processes."""
        if report is not None:
            self._evaluations += report.get("last_evaluation") != self._report.get("last_evaluation")
            self._report = report
        report = self._report
        last = last_evaluation(report.get("last_evaluation") or {})
        if last is not None and last.is_better_than(self._best):
            self._best = last
        # There may have been an evaluation between two reports, of which only the count is known.
        best_return = report.get("best_return")
        if best_return is not None and (self._best is None or best_return > self._best.mean):
            self._best = EvaluationResult(best_return)
        buffers, workers = report.get("buffers") or {}, report.get("workers") or {}
        held = buffers.get("held") or {}
        return RunStatus(
            exp_name=self._exp_name,
            env_step=int(report.get("env_step", 0)),
            train_iter=int(report.get("train_iter", 0)),
            elapsed_s=self._clock() - self._began_s,
            max_env_step=self._limits.get("env_step", UNBOUNDED),
            max_train_iter=self._limits.get("train_iter", UNBOUNDED),
            stop_value=self._stop_value,
            solved=bool(report.get("solved", False)),
            evaluations=self._evaluations,
            last_return=report.get("return"),
            best_return=best_return,
            last_evaluation=last,
            best_evaluation=self._best,
            buffer_rows=sum(int(one.get("rows", 0)) for one in held.values()),
            pushed_rows=int(buffers.get("rows", 0)),
            sampled_rows=int(buffers.get("sampled_rows", 0)),
            processes=processes or {},
            workers={
                name: WorkerStatus(str(one.get("task_id") or one.get("state") or "-"), one.get("version_lag"))
                for name, one in workers.items()
            },
            report=report,
        )


def last_evaluation(last: Mapping[str, Any]) -> EvaluationResult | None:
    """Return the ``last_evaluation`` of a commander's status as a result; ``None`` before the first."""
    if last.get("reward_mean") is None:
        return None
    std, low, high = (last.get(f"reward_{name}") for name in ("std", "min", "max"))
    episodes, train_iter = (
        None if last.get(key) is None else int(last[key]) for key in ("episode_count", "train_iter")
    )
    return EvaluationResult(last["reward_mean"], std, low, high, episodes, train_iter, last.get("opponent"))


def judged_by(status: RunStatus, result: EvaluationResult) -> RunStatus:
    """Return a status with one more evaluation. Only the commander decides whether it solves a two-player game."""
    best = status.best_evaluation
    best = result if best is None or result.is_better_than(best) else best
    reached = status.stop_value is not None and result.mean >= status.stop_value and result.opponent is None
    solved = status.solved or reached
    report = {**status.report, "return": result.mean, "best_return": best.mean, "solved": solved}
    return replace(
        status,
        solved=solved,
        evaluations=status.evaluations + 1,
        last_return=result.mean,
        best_return=best.mean,
        last_evaluation=result,
        best_evaluation=best,
        report=report,
    )


def newest_checkpoint(exp_name: str, train_iter: int = 0) -> str | None:
    """Return the path of the latest checkpoint of a run, or ``None``.

    It is the resume checkpoint of a stopped learner if that is as far as the run got; a run resumed from an earlier
    snapshot may have left others with more train iterations. Otherwise it is the checkpoint with the most iterations.

    Args:
        exp_name: Experiment folder.
        train_iter: Train iteration of the run's last report.
    """

    def rank(path: Path) -> tuple[bool, int, int]:
        reached = train_iter_of(path)
        stopped_here = path.name.startswith(_RESUME_PREFIX) and (reached is None or reached >= train_iter)
        return (stopped_here, *progress_of(path))

    # The best checkpoint is only for acting.
    saved = (path for path in Path(exp_name).glob("ckpt*/*.pth.tar") if path.name != BEST_CKPT_NAME)
    found = max(saved, key=rank, default=None)
    return None if found is None else str(found)


def finish_run(status: RunStatus, checkpoint: str | None = None) -> tuple[dict[str, Any], str]:
    """Write ``result.json`` from the last status of a run; return its content, and a sentence about the end.

    Args:
        checkpoint: Last checkpoint; by default searched in the folder of the run.
    """
    report = status.report
    result = {key: report.get(key) for key in (*_FIGURES, *_DETAILS)}
    if "ratings" in report:
        # Players of a league, including earlier versions of themselves.
        result["ratings"] = report["ratings"]
    checkpoint = checkpoint or keep_final_checkpoint(status.exp_name, status.train_iter)
    result.update(exp_name=status.exp_name, checkpoint=checkpoint, **evaluations_of(status))
    write_result(status.exp_name, result)
    return result, status.describe_end() + next_steps(status.exp_name)


def keep_final_checkpoint(exp_name: str, train_iter: int) -> str | None:
    """Rename the checkpoint of the stopped learner to that of the final one; return its path."""
    newest = newest_checkpoint(exp_name, train_iter)
    if newest is None or not Path(newest).name.startswith(_RESUME_PREFIX):
        return newest
    final = Path(newest).with_name("ckpt_final.pth.tar")
    rename_checkpoint(newest, final)
    return str(final)
