"""What commanders write down of finished collector tasks."""

from collections.abc import Mapping
from typing import Any

from ding.utils import build_logger, write_scalars

_VALUES = (
    "episode_count", "step_count", "avg_step_per_episode", "avg_time_per_step", "avg_time_per_episode", "reward_mean",
    "reward_std",
)  # fmt: skip


class CommanderLog:
    """Text logs of collectors and evaluators, and tensorboard values of both.

    Tags: ``<who>_iter/<value>`` (x: train iteration) and ``<who>_step/<value>`` (x: env steps of all collectors).

    Args:
        exp_name: folder of the experiment.
    """

    def __init__(self, exp_name: str) -> None:
        path = f"./{exp_name}/log/commander"
        logger, writer = build_logger(path, "commander", need_tb=True)
        self.logger: Any = logger
        self._writer: Any = writer
        self._loggers: dict[str, Any] = {
            who: build_logger(path, f"commander_{who}", need_tb=False)[0] for who in ("collector", "evaluator")
        }
        self.last: dict[str, dict[str, Any]] = {}

    def report(self, who: str, finished_task: Mapping[str, Any], envstep: int) -> None:
        """Write down a finished task.

        Args:
            who: ``collector`` or ``evaluator``.
            finished_task: finish info of a collector.
            envstep: env steps so far.
        """
        info = {**finished_task, "episode_count": finished_task.get("real_episode_count")}
        values = {name: float(info[name]) for name in _VALUES if isinstance(info.get(name), (int, float))}
        train_iter = finished_task.get("train_iter", -1)
        if isinstance(train_iter, (list, tuple)):
            train_iter = max(train_iter, default=-1)
        self.last[who] = {"train_iter": train_iter, "envstep": envstep, **values}
        logger = self._loggers[who]
        logger.info("train iteration %s, env step %s%s", train_iter, envstep, logger.get_tabulate_vars_hor(values))
        if train_iter is not None and train_iter >= 0:
            write_scalars(self._writer, f"{who}_iter/", values, train_iter)
        write_scalars(self._writer, f"{who}_step/", values, envstep)

    def close(self) -> None:
        """Bring the values to the disk."""
        self._writer.close()
