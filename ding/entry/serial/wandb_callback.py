"""Logging of a serial run to Weights & Biases by the section ``wandb_logger`` of the main config (extra ``wandb``)."""

from pathlib import Path
from typing import Any

import numpy as np

from ding.entry.serial.parts import SerialParts
from ding.entry.view.callbacks import RunCallback
from ding.entry.view.status import RunStatus
from ding.framework import OnlineRLContext
from ding.framework.middleware import wandb_online_logger
from ding.utils import require_extra


def wants_wandb(parts: SerialParts) -> bool:
    """Return whether the config, or the sweep of an agent, requests Weights & Biases."""
    return bool(parts.cfg.get("wandb_logger")) or (parts.kept is not None and parts.kept.wandb_sweep)


class WandbCallback(RunCallback):
    """Logs numbers of the learner and of evaluations over env steps, and further data according to the switches.

    ``WANDB_MODE=offline`` keeps all data local, in the experiment folder.

    Args:
        parts: Workers of the run. ``cfg.wandb_logger`` has the switches of ``wandb_online_logger``.

    Raises:
        MissingExtraError: wandb is not installed.
    """

    def __init__(self, parts: SerialParts) -> None:
        self._wandb: Any = require_extra("wandb", "wandb")
        cfg, learn = parts.cfg, parts.policy.learn_mode
        self._learner, self._names = parts.learner, list(learn.monitor_vars())
        self._kept = parts.kept
        self._log = wandb_online_logger(
            record_path=str(Path(cfg.exp_name) / "videos"),
            cfg=cfg.get("wandb_logger"),
            exp_config=cfg,
            metric_list=self._names,
            env=parts.evaluator_env,
            model=learn.get_attribute("model"),
            anonymous=True,
            project_name=Path(cfg.exp_name).name,
            wandb_sweep=self._kept is not None and self._kept.wandb_sweep,
        )

    def on_evaluation(self, status: RunStatus) -> None:
        self._send(status, evaluated=True)

    def on_end(self, status: RunStatus) -> None:
        self._send(status, evaluated=False)
        self._wandb.finish()

    def _send(self, status: RunStatus, evaluated: bool) -> None:
        context = self._context(status, evaluated)
        self._log(context)
        if self._kept is not None:
            self._kept.wandb_url = str(context.wandb_url)

    def _context(self, status: RunStatus, evaluated: bool) -> OnlineRLContext:
        value, monitor = status.last_return if evaluated else None, self._learner.monitor
        averages = {} if monitor is None else {name: monitor.avg[name]() for name in self._names}
        return OnlineRLContext(
            env_step=status.env_step,
            train_iter=status.train_iter,
            train_output=averages if status.train_iter else {},
            eval_value=-np.inf if value is None else value,
            eval_output={"episode_return": status.returns},
        )
